"""Keys that occur twice in one JSON object.

A JSON decoder silently keeps the last value. `duplicate_fields` parses the bytes again and returns every
repeated key, as field validation `Strict` and `Warn` report them.
"""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Any

from kubewright.api.encoding.codec import DecodeError

_MAX_PREFIX = 1024
"""Characters of a path below which it is extended: the cost of a field does not depend on its depth."""
_MAX_REPORTED = 1000
"""Repeated keys that are returned."""


class _Pairs(list[tuple[str, Any]]):
    """All members of a JSON object, in order and with duplicates."""


def duplicate_fields(data: bytes | str) -> list[str]:
    """Return the path of each repeated key once, such as `spec.a` or `spec.list[0].b`; raise if not JSON.

    Returns the first 1,000; paths of more than 1,024 characters are not extended.
    """
    repeated = False

    def keep(pairs: list[tuple[str, Any]]) -> _Pairs:
        nonlocal repeated
        repeated = repeated or len({name for name, _ in pairs}) != len(pairs)
        return _Pairs(pairs)

    try:
        document = json.loads(_text(data), object_pairs_hook=keep)
        if not repeated:
            return []
        found: dict[str, None] = {}
        _visit(document, "", found)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    return list(found)


def merged_duplicates(data: bytes | str) -> Any:
    """Merge duplicate keys as Go's decoder does: objects are merged, other values replaced."""

    def merge(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for name, value in pairs:
            merged[name] = _added(merged[name], value) if name in merged else value
        return merged

    return json.loads(_text(data), object_pairs_hook=merge)


def _text(data: bytes | str) -> str:
    """Decode a document; invalid UTF-8 is replaced, as Go's decoder does."""
    return data if isinstance(data, str) else data.decode("utf-8", "replace")


def _added(first: Any, second: Any) -> Any:
    """Merge the second value into the first, in place: many repetitions of a key cost no copies of it."""
    if type(first) is not dict or type(second) is not dict:
        return second
    for name, value in second.items():
        first[name] = _added(first.get(name), value)
    return first


def field_paths(data: bytes | str, wanted: Set[str]) -> list[str]:
    """Return those paths of `wanted` that exist, in the order in which a decoder completes the fields."""
    found: dict[str, None] = {}

    def visit(value: Any, path: str) -> None:
        if type(value) is _Pairs:
            for name, item in value:
                where = _below(path, name)
                visit(item, where)
                if where in wanted:
                    found.pop(where, None)
                    found[where] = None
        elif type(value) is list:
            for position, item in enumerate(value):
                visit(item, _element(path, position))

    try:
        visit(json.loads(_text(data), object_pairs_hook=_Pairs), "")
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    return list(found)


def _visit(value: Any, path: str, found: dict[str, None]) -> None:
    if type(value) is _Pairs:
        seen: set[str] = set()
        for name, item in value:
            if len(found) >= _MAX_REPORTED:
                return
            where = _below(path, name)
            if name in seen:
                found[where] = None
            seen.add(name)
            _visit(item, where, found)
    elif type(value) is list:
        for position, item in enumerate(value):
            _visit(item, _element(path, position), found)


def _below(path: str, name: str) -> str:
    if len(path) > _MAX_PREFIX:
        return path
    return f"{path}.{name}" if path else name


def _element(path: str, position: int) -> str:
    return path if len(path) > _MAX_PREFIX else f"{path}[{position}]"
