"""Duplicate items in sets and list maps."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.schema import field_errors as fe
from kubewright.schema.structural import Node


def validate_lists(node: Node, value: Any, path: str, bad: Collection[int] | None = None) -> list[FieldError]:
    """Return the duplicates in all sets and list maps of a value; `bad` limits the search."""
    errors: list[FieldError] = []
    _visit(node, value, path, bad, errors)
    return errors


def _visit(node: Node, value: Any, path: str, bad: Collection[int] | None, errors: list[FieldError]) -> None:
    if bad is not None and id(value) not in bad:
        return
    if type(value) is dict:
        additional = node.additional
        for name in sorted(value):
            item = value[name]
            if (type(item) is not dict and type(item) is not list) or (
                bad is not None and id(item) not in bad
            ):
                continue
            declared = node.properties.get(name)
            if declared is not None:
                _visit(declared, item, fe.child(path, name), bad, errors)
            elif additional is not None:
                _visit(additional, item, fe.key(path, name), bad, errors)
    elif type(value) is list:
        errors += list_errors(node, value, path)
        items = node.items
        if items is not None:
            for position, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    _visit(items, item, fe.index(path, position), bad, errors)


def list_errors(node: Node, value: list[Any], path: str) -> list[FieldError]:
    """Return the duplicates in one list."""
    if node.list_type == "set":
        return [fe.duplicate(fe.index(path, at), value[at]) for at in _second_occurrences(value)]
    if node.list_type != "map":
        return []
    for position, item in enumerate(value):
        if item is not None and type(item) is not dict:
            return [
                fe.invalid(fe.index(path, position), item, "must be an object for an array of list-type map"),
            ]
    keys = [{name: item[name] for name in node.list_map_keys if item and name in item} for item in value]
    return [fe.duplicate(fe.index(path, at), keys[at]) for at in _second_occurrences(keys)]


def _second_occurrences(values: list[Any]) -> list[int]:
    """Return the positions of second occurrences; further repetitions are not reported."""
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    found = []
    for position, value in enumerate(values):
        identity = _identity(value)
        times = seen.get(identity, 0)
        seen[identity] = times + 1
        if times == 1:
            found.append(position)
    return found


def _identity(value: Any) -> Any:
    """Return a hashable key that is equal only for equal values of equal types."""
    if type(value) is dict:
        return dict, frozenset((name, _identity(item)) for name, item in value.items())
    if type(value) is list:
        return list, tuple(map(_identity, value))
    return type(value), value
