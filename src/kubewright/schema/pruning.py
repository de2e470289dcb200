"""Pruning: unknown fields are removed and their paths returned.

Below `x-kubernetes-preserve-unknown-fields` unknown fields are kept, but pruning resumes at fields that the
schema declares. `apiVersion`, `kind` and `metadata` of a resource are always kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from .structural import NO_DEFAULT, Node

_MAX_PREFIX: Final = 1024
"""Characters of a path below which it is extended: the cost of a field does not depend on its depth."""
_MAX_REPORTED: Final = 10_000
"""Unknown fields whose paths are returned; more are removed without their paths."""
_WORD: Final = re.compile(r"\[\d+\]|[^.\[]+")
_META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))


Removed = list[tuple[dict[str, Any], str, Any]]
"""Removed fields: the object that had it, name and value."""


def prune(value: Any, node: Node | None, *, root: bool = False, removed: Removed | None = None) -> list[str]:
    """Remove unknown fields in place and return their sorted paths; `root` marks the root of a resource.

    Fields of objects that the schema declares are added to `removed`.
    """
    unknown = _Unknown(removed)
    _prune(value, node, root or (node is not None and node.embedded_resource), "", unknown)
    unknown.sort()
    return unknown


class _Unknown(list[str]):
    """Paths of unknown fields."""

    __slots__ = ("removed",)

    def __init__(self, removed: Removed | None = None) -> None:
        super().__init__()
        self.removed = removed


def declares(node: Node | None, path: str) -> bool:
    """Whether a schema has the field of a path such as `spec.containers[0].image`."""
    for word in _WORD.findall(path):
        if node is None:
            return False
        node = node.items if word[0] == "[" else node.properties.get(word) or node.additional
    return node is not None


def _prune(value: Any, node: Node | None, resource: bool, path: str, unknown: _Unknown) -> None:
    if type(value) is dict:
        if node is None:
            _report(unknown, path, value)
            value.clear()
            return
        properties = node.properties
        additional, has_additional = _additional(node)
        preserve = node.preserve_unknown
        dropped = []
        for name, item in value.items():
            if resource and name in _META_FIELDS:
                continue
            child = properties.get(name)
            if child is None:
                if not has_additional:
                    if not preserve:
                        dropped.append(name)
                    continue
                child = additional
            if type(item) is dict or type(item) is list:
                _prune(
                    item,
                    child,
                    child is not None and child.embedded_resource,
                    _below(path, name, item),
                    unknown,
                )
        if dropped:
            for name in dropped:
                item = value.pop(name)
                if unknown.removed is not None:
                    unknown.removed.append((value, name, item))
            _report(
                unknown, path, dropped if path else [name for name in dropped if name not in _META_FIELDS]
            )
    elif type(value) is list:
        items = node.items if node is not None else None
        if items is None and node is not None and node.preserve_unknown:
            return
        keep_all = node is not None and node.preserve_unknown
        for position, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                where = path
                if len(path) <= _MAX_PREFIX:
                    where = f"{path[:-1] if path.endswith('.') else path}[{position}]"
                    where += "." if type(item) is dict else ""
                child = items
                if keep_all and child is not None:
                    _keep(item, child, where, unknown)
                else:
                    _prune(item, child, child is not None and child.embedded_resource, where, unknown)


def _keep(value: Any, node: Node, path: str, unknown: _Unknown) -> None:
    """Visit an element of a preserved list: only declared fields below it are pruned."""
    if type(value) is dict:
        additional, has_additional = _additional(node)
        for name, item in value.items():
            if node.embedded_resource and name in _META_FIELDS:
                continue
            child = node.properties.get(name)
            if child is None and not has_additional:
                continue
            child = child if child is not None else additional
            _prune(
                item, child, child is not None and child.embedded_resource, _below(path, name, item), unknown
            )
    elif type(value) is list and node.items is not None:
        for position, item in enumerate(value):
            where = path
            if len(path) <= _MAX_PREFIX:
                where = f"{path}[{position}]" + ("." if type(item) is dict else "")
            _keep(item, node.items, where, unknown)


def _report(unknown: _Unknown, path: str, names: Iterable[str]) -> None:
    """Add the paths of unknown fields, up to the limit."""
    unknown += [path + name for name in islice(names, _MAX_REPORTED - len(unknown))]


def _below(path: str, name: str, item: Any) -> str:
    if len(path) > _MAX_PREFIX:
        return path
    name = name[:_MAX_PREFIX]
    return f"{path}{name}." if type(item) is dict else f"{path}{name}"


def _additional(node: Node) -> tuple[Node | None, bool]:
    """Return the schema of additional properties, and whether they are allowed."""
    declared = node.raw.get("additionalProperties")
    if declared is None:
        return None, False
    return (node.additional if isinstance(declared, dict) else None), True


def drop_nulls(value: Any, node: Node | None) -> None:
    """Remove, in place, nulls of fields that are neither nullable nor have a default."""
    if type(value) is dict:
        if node is None:
            return
        properties = node.properties
        additional, _ = _additional(node)
        dropped = []
        for name, item in value.items():
            child = properties.get(name) or additional
            if child is None:
                continue
            if item is None:
                if not child.nullable and (child.default is NO_DEFAULT or child.default is None):
                    dropped.append(name)
            elif type(item) is dict or type(item) is list:
                drop_nulls(item, child)
        for name in dropped:
            del value[name]
    elif type(value) is list and node is not None and node.items is not None:
        for item in value:
            drop_nulls(item, node.items)
