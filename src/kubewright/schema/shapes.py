"""Differences between the fields of two schemas, such as those of two versions of a kind.

Only what can be represented is compared: the names of fields and their types, not their validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from .structural import Node

_TOP = ("apiVersion", "kind", "metadata")


def shape_differences(one: Node, other: Node, names: tuple[str, str], path: str = "") -> Iterator[str]:
    """Return the fields that only one schema has, or that have different types; `names` are the schemas'.

    For example `spec.size (only v1)` and `spec.schedule (string in v1, object in v2)`.
    """
    types = _type(one), _type(other)
    if types[0] != types[1] and all(types):
        yield f"{path} ({types[0]} in {names[0]}, {types[1]} in {names[1]})"
        return
    fields = one.properties, other.properties
    for name in dict.fromkeys((*fields[0], *fields[1])):
        below = f"{path}.{name}" if path else name
        if not path and name in _TOP:
            continue
        if name not in fields[0] or name not in fields[1]:
            present = name not in fields[0]
            if not (one, other)[not present].preserve_unknown:
                yield f"{below} (only {names[present]})"
            continue
        yield from shape_differences(fields[0][name], fields[1][name], names, below)
    if one.items is not None and other.items is not None:
        yield from shape_differences(one.items, other.items, names, f"{path}[]")
    if one.additional is not None and other.additional is not None:
        yield from shape_differences(one.additional, other.additional, names, f"{path}.*")


def _type(node: Node) -> str:
    """Return the type of a schema, or nothing for one that accepts every type."""
    if node.int_or_string:
        return "integer or string"
    if node.type == "object" and node.additional is not None and not node.preserve_unknown:
        return "map"
    return node.type
