"""Conversion between decoded JSON and CEL values.

A program evaluates JSON data directly. A value is converted only when an expression accesses it and its type
is not a JSON type (a timestamp, a duration, bytes, a double written without a dot, a list of type set).
`converter` returns the conversion function of a type, or `None` if none is needed; `to_json` is the inverse.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from kubewright.cel.checking.types import Kind, Type
from kubewright.cel.errors import CelError
from kubewright.cel.library.time import format_duration, format_timestamp, read_duration, read_timestamp
from kubewright.cel.values import DurationValue, MapList, Optional, SetList, TimestampValue, type_of_value

Converter = Callable[[Any], Any]
_MAX_NODES = 1_000_000


def converter(item: Type) -> Converter | None:
    """Return the conversion function of a type, or `None`."""
    return _build(item, {}) if item.needs_conversion else None


def _build(item: Type, known: dict[int, Converter]) -> Converter:
    simple = _SIMPLE.get(item.kind)
    if simple is not None:
        return simple
    found = known.get(id(item))
    if found is not None:
        return found
    target: list[Converter] = []

    def deferred(value: Any) -> Any:
        return target[0](value)

    known[id(item)] = deferred
    if item.kind is Kind.LIST:
        made = _list(item, known)
    elif item.kind is Kind.MAP:
        made = _map(item, known)
    elif item.kind is Kind.OBJECT:
        made = _object(item, known)
    elif item.kind is Kind.OPAQUE and item.params:
        made = _optional(item, known)
    else:
        made = _same
    target.append(made)
    return made


def _inner(item: Type, known: dict[int, Converter]) -> Converter | None:
    return _build(item, known) if item.needs_conversion else None


def _list(item: Type, known: dict[int, Converter]) -> Converter:
    convert = _inner(item.params[0], known)
    keys, kind = item.list_keys, item.list_type

    def run(value: Any) -> Any:
        if type(value) is not list:
            return value
        items = value if convert is None else [convert(element) for element in value]
        if kind == "set":
            return SetList(items)
        return MapList(items, keys) if kind == "map" else items

    return run


def _map(item: Type, known: dict[int, Converter]) -> Converter:
    convert = _build(item.params[1], known)

    def run(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {key: convert(element) for key, element in value.items()}

    return run


def _object(item: Type, known: dict[int, Converter]) -> Converter:
    converters = {
        field.key: _build(field.type, known) for field in item.fields.values() if field.type.needs_conversion
    }

    def run(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {
            key: converters[key](element) if key in converters else element for key, element in value.items()
        }

    return run


def _optional(item: Type, known: dict[int, Converter]) -> Converter:
    convert = _build(item.params[0], known)

    def run(value: Any) -> Any:
        if isinstance(value, Optional) and value.has_value:
            return Optional(convert(value.value))
        return value

    return run


def to_json(value: Any) -> Any:
    """Convert a CEL value to JSON data; raise `CelError` for types, opaque values and very large values.

    An expression can use one value several times in another, so that its JSON is much larger than itself.
    """
    stack, nodes = [value], 0
    while stack:
        item = stack.pop()
        if isinstance(item, list | dict):
            nodes += len(item)
            if nodes > _MAX_NODES:
                raise CelError(f"value exceeds limit of {_MAX_NODES} nodes")
            stack.extend(item.values() if isinstance(item, dict) else item)
    return _json(value)


def _json(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {_json_key(key): _json(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, TimestampValue):
        return format_timestamp(value)
    if isinstance(value, DurationValue):
        return format_duration(value)
    if isinstance(value, Optional):
        return _json(value.value) if value.has_value else None
    raise CelError(f"type conversion error from '{type_of_value(value)}' to JSON")


def _json_key(key: Any) -> str:
    if type(key) is bool:
        return "true" if key else "false"
    return str(key)


def _same(value: Any) -> Any:
    return value


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _timestamp(value: Any) -> Any:
    return read_timestamp(value) if type(value) is str else value


def _duration(value: Any) -> Any:
    return read_duration(value) if type(value) is str else value


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise CelError("byte format: illegal base64 data") from None


_SIMPLE: dict[Kind, Converter] = {
    Kind.DOUBLE: _double,
    Kind.TIMESTAMP: _timestamp,
    Kind.DURATION: _duration,
    Kind.BYTES: _bytes,
}
