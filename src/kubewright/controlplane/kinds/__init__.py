"""The rules of Kubernetes' own kinds: defaults, validation, printing, subresources.

One module per API group, loaded when the group is first asked for. Each has a dict `KINDS` from plural names
to `Kind`. A group or kind without an entry has no rules beyond its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from .kind import Kind, KindStrategy

GROUP_MODULES: Mapping[str, str] = {
    "": "core",
    "admissionregistration.k8s.io": "admissionregistration",
    "apiregistration.k8s.io": "apiregistration",
    "apps": "apps",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "certificates.k8s.io": "certificates",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
    "flowcontrol.apiserver.k8s.io": "flowcontrol",
    "networking.k8s.io": "networking",
    "node.k8s.io": "node",
    "policy": "policy",
    "rbac.authorization.k8s.io": "rbac",
    "resource.k8s.io": "resource",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
    "storagemigration.k8s.io": "storagemigration",
}
"""Groups that have rules, and the module of this package that holds them."""


@cache
def kinds_of_group(group: str) -> Mapping[str, Kind]:
    """The kinds of a group that have rules of their own, by plural name."""
    module = GROUP_MODULES.get(group)
    if module is None or find_spec(f"{__name__}.{module}") is None:
        return {}
    kinds: Mapping[str, Kind] = import_module(f"{__name__}.{module}").KINDS
    return kinds


def rules_of(group: str, plural: str) -> Kind | None:
    """The rules of one kind, if it has any, for one server."""
    kind = kinds_of_group(group).get(plural)
    if kind is not None and kind.make_strategy is not None:
        return replace(kind, strategy=kind.make_strategy())
    return kind


__all__ = ["GROUP_MODULES", "Kind", "KindStrategy", "kinds_of_group", "rules_of"]
