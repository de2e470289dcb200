"""`Message`: protobuf messages declared as Python types, and their wire format.

    class Device(Message):
        id: Annotated[str, 1] = ""
        health: Annotated[str, 2] = ""
        topology: Annotated[TopologyInfo | None, 3] = None

    Device.decode(Device(id="gpu-0").encode())

The number is that of the field on the wire. Types are `str`, `bytes`, `bool`, `int` (all integers that are
varints, and enumerations), `float` (a double), messages (`None` if absent), and lists and dictionaries with
string keys of these. As in proto3, fields with their zero value are not sent and unknown fields are ignored;
a oneof is declared as several fields of which one is set.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from kubewright.apiserver.encoding.protobuf_wire import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    put_bytes,
    put_key,
    put_varint,
    signed,
    skip,
    span,
    utf8,
    varint,
)

_MAP_KEY: Final = 1
_MAP_VALUE: Final = 2
MessageT = TypeVar("MessageT", bound="Message")


class Message(msgspec.Struct, kw_only=True):
    """Base class of messages."""

    def encode(self) -> bytes:
        """Return the message in the wire format."""
        return b"".join(_encode_field(each, getattr(self, each.name)) for each in _fields(type(self)))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a message; raise `ProtobufError` for bytes that do not fit it."""
        return _decode(cls, data, 0, len(data))


class _Field(NamedTuple):
    number: int
    name: str
    type: type[Any]
    label: Literal["", "list", "map"]
    wire_type: int


@cache
def _fields(message: type[Message]) -> tuple[_Field, ...]:
    """Return the fields of a message in the order of their numbers."""
    hints = get_type_hints(message, include_extras=True)
    found = []
    for name in message.__struct_fields__:
        arguments = get_args(hints[name])
        if len(arguments) != 2 or not isinstance(arguments[1], int):
            raise TypeError(
                f"{message.__name__}.{name}: expected Annotated[TYPE, NUMBER], not {hints[name]!r}"
            )
        found.append(_field(message, name, *arguments))
    return tuple(sorted(found))


def _field(message: type[Message], name: str, hint: Any, number: int) -> _Field:
    label: Literal["", "list", "map"] = ""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        label, hint = "list", arguments[0]
    elif origin is dict:
        label, hint = "map", arguments[1]
    elif origin in (Union, types.UnionType):
        hint = next(each for each in arguments if each is not type(None))
    if not isinstance(hint, type) or not issubclass(hint, str | bytes | int | float | Message):
        raise TypeError(f"{message.__name__}.{name}: {hint!r} is not a type of protobuf fields")
    wire_type = VARINT if issubclass(hint, int) else FIXED64 if issubclass(hint, float) else BYTES
    return _Field(number, name, hint, label, wire_type)


# Encoding


def _encode_field(field: _Field, value: Any) -> bytes:
    if field.label == "map":
        return b"".join(
            put_bytes(
                field.number,
                put_bytes(_MAP_KEY, key.encode()) + _encode_single(field, _MAP_VALUE, item),
            )
            for key, item in value.items()
        )
    if field.label == "list":
        if field.wire_type != BYTES and value:
            return put_bytes(field.number, b"".join(_scalar(field, item) for item in value))
        return b"".join(_encode_single(field, field.number, item) for item in value)
    if value is None or (not value and not isinstance(value, Message)):
        return b""
    return _encode_single(field, field.number, value)


def _encode_single(field: _Field, number: int, value: Any) -> bytes:
    if field.wire_type != BYTES:
        return put_key(number, field.wire_type) + _scalar(field, value)
    if isinstance(value, Message):
        return put_bytes(number, value.encode())
    return put_bytes(number, value.encode() if isinstance(value, str) else value)


def _scalar(field: _Field, value: Any) -> bytes:
    return struct.pack("<d", value) if field.wire_type == FIXED64 else put_varint(int(value))


# Decoding


@cache
def _by_number(message: type[Message]) -> dict[int, _Field]:
    return {field.number: field for field in _fields(message)}


def _decode(message: type[MessageT], data: bytes, at: int, end: int) -> MessageT:
    fields, values = _by_number(message), dict[str, Any]()
    while at < end:
        key, at = varint(data, at, end)
        field = fields.get(key >> 3)
        if field is None:
            at = skip(data, at, end, key & 7)
            continue
        try:
            at = _decode_field(field, values, data, at, end, key & 7)
        except ProtobufError as error:
            raise ProtobufError(error.reason, f"{message.__name__}.{field.name}") from None
    return message(**values)


def _decode_field(field: _Field, values: dict[str, Any], data: bytes, at: int, end: int, wire: int) -> int:
    if field.label == "map":
        start, at = _expect_span(data, at, end, wire)
        key, value = _decode_entry(field, data, start, at)
        values.setdefault(field.name, {})[key] = value
        return at
    if field.label == "list":
        items = values.setdefault(field.name, [])
        if wire == BYTES and field.wire_type != BYTES:
            start, stop = span(data, at, end)
            while start < stop:
                item, start = _decode_single(field, data, start, stop, field.wire_type)
                items.append(item)
            return stop
        item, at = _decode_single(field, data, at, end, wire)
        items.append(item)
        return at
    values[field.name], at = _decode_single(field, data, at, end, wire)
    return at


def _decode_entry(field: _Field, data: bytes, at: int, end: int) -> tuple[str, Any]:
    key, value = "", field.type()
    while at < end:
        tag, at = varint(data, at, end)
        if tag == _MAP_KEY << 3 | BYTES:
            start, at = span(data, at, end)
            key = utf8(data[start:at])
        elif tag >> 3 == _MAP_VALUE:
            value, at = _decode_single(field, data, at, end, tag & 7)
        else:
            at = skip(data, at, end, tag & 7)
    return key, value


def _decode_single(field: _Field, data: bytes, at: int, end: int, wire: int) -> tuple[Any, int]:
    if wire != field.wire_type:
        raise ProtobufError(f"wire type {wire} instead of {field.wire_type}")
    if wire == VARINT:
        number, at = varint(data, at, end)
        return (bool(number) if field.type is bool else signed(number)), at
    if wire == FIXED64:
        stop = skip(data, at, end, wire)
        return struct.unpack("<d", data[at:stop])[0], stop
    start, at = span(data, at, end)
    if issubclass(field.type, Message):
        return _decode(field.type, data, start, at), at
    return _READERS[field.type](data[start:at]), at


_READERS: Final[dict[type[Any], Callable[[bytes], Any]]] = {str: utf8, bytes: bytes}


def _expect_span(data: bytes, at: int, end: int, wire: int) -> tuple[int, int]:
    if wire != BYTES:
        raise ProtobufError(f"wire type {wire} instead of {BYTES}")
    return span(data, at, end)


class Empty(Message):
    """A message without fields."""
