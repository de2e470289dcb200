"""Keys that occur twice in one JSON object.

A JSON decoder silently keeps the last value. `duplicate_fields` parses the bytes again and returns every
repeated key, as field validation `Strict` and `Warn` report them.
"""

from __future__ import annotations

import json
from typing import Any

from kubewright.api.codec import DecodeError


class _Pairs(list[tuple[str, Any]]):
    """All members of a JSON object, in order and with duplicates."""


def duplicate_fields(data: bytes | str) -> list[str]:
    """Return the path of each repeated key once, such as `spec.a` or `spec.list[0].b`; raise if not JSON."""
    repeated = False

    def keep(pairs: list[tuple[str, Any]]) -> _Pairs:
        nonlocal repeated
        repeated = repeated or len({name for name, _ in pairs}) != len(pairs)
        return _Pairs(pairs)

    try:
        document = json.loads(data, object_pairs_hook=keep)
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

    return json.loads(data, object_pairs_hook=merge)


def _added(first: Any, second: Any) -> Any:
    if type(first) is not dict or type(second) is not dict:
        return second
    return {**first, **{name: _added(first.get(name), value) for name, value in second.items()}}


def field_paths(data: bytes | str) -> list[str]:
    """Return the path of every field, in the order in which a decoder completes them."""
    found: dict[str, None] = {}

    def visit(value: Any, path: str) -> None:
        if type(value) is _Pairs:
            for name, item in value:
                where = f"{path}.{name}" if path else name
                visit(item, where)
                found.pop(where, None)
                found[where] = None
        elif type(value) is list:
            for position, item in enumerate(value):
                visit(item, f"{path}[{position}]")

    try:
        visit(json.loads(data, object_pairs_hook=_Pairs), "")
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    return list(found)


def _visit(value: Any, path: str, found: dict[str, None]) -> None:
    if type(value) is _Pairs:
        seen: set[str] = set()
        for name, item in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                found[where] = None
            seen.add(name)
            _visit(item, where, found)
    elif type(value) is list:
        for position, item in enumerate(value):
            _visit(item, f"{path}[{position}]", found)
