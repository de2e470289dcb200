"""The built-in kinds of Kubernetes: defaults, validation, printed columns, subresources.

    kinds/apps/deployment.py       KINDS = {"deployments": Kind(validate=Rules({...}), ...)}

One sub-package per API group, named after the first part of the group (`core` for the legacy group). Each of
its modules may declare kinds in a dict `KINDS`, from plural names to `Kind`. A group is imported when one of
its kinds is first used.

- `kind`: `Kind`, the declaration, and `KindStrategy`, which applies it
- `validation`: tables of rules and the engine that compiles them
- `printing`: columns and cells of tables
- `workload`: what kinds with a pod template share
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from .kind import Kind, KindStrategy


@cache
def kinds_of_group(group: str) -> Mapping[str, Kind]:
    """Return the kinds that a group declares, by plural name."""
    package = f"{__name__}.{group.partition('.')[0] or 'core'}"
    spec = find_spec(package)
    if spec is None:
        return {}
    found: dict[str, Kind] = {}
    for module in iter_modules(spec.submodule_search_locations):
        found.update(getattr(import_module(f"{package}.{module.name}"), "KINDS", {}))
    return found


def find_kind(group: str, plural: str) -> Kind:
    """Return the declaration of a kind; an empty one if its schema says everything."""
    return kinds_of_group(group).get(plural) or Kind()


__all__ = ["Kind", "KindStrategy", "find_kind", "kinds_of_group"]
