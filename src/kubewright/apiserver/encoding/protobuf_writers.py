"""Functions that encode protobuf messages, made from their descriptors at first use.

They encode valid objects and check nothing: for any other object they raise some exception, and the caller
(`ProtobufCodec`) encodes the object again field by field, which reports the path of the error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubewright.api.builtin.wire_messages import Field, Message, Messages

from .protobuf_wire import BYTES, FIXED64, VARINT, WRITERS, put_bytes, put_key, put_varint

Write = Callable[[Any], bytes]

MAX_DEPTH: Final = 128
_VARINTS: Final = frozenset("iIb")


class MessageWriters:
    """The functions of a table of messages."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._writers: dict[str, Write] = {}
        self._depth = 0

    def encode(self, name: str, value: Any) -> bytes:
        """Encode a message without an envelope."""
        self._depth = 0
        return self._writer(name)(value)

    def _writer(self, name: str) -> Write:
        found = self._writers.get(name)
        if found is None:
            found = self._writers[name] = self._message(self._messages[name])
        return found

    def _message(self, message: Message) -> Write:
        if message.shape == "list":
            return _optional(self._field(message.fields[0]))
        if message.shape == "union":
            return self._union(message)
        if any(field.inline for field in message.fields):
            return self._object_with_inlined(message)
        return self._object(message)

    def _object(self, message: Message) -> Write:
        count = len(message.fields)
        # The last place is for fields that are not encoded.
        fields: dict[str, tuple[int, Write]] = {
            "apiVersion": (count, _nothing),
            "kind": (count, _nothing),
        }
        for place, field in enumerate(message.fields):
            fields[field.name] = (place, self._field(field))
        empty = [b""] * (count + 1)

        def write(value: dict[str, Any]) -> bytes:
            parts = empty.copy()
            for name, given in value.items():
                place, write_field = fields[name]
                if given is not None:
                    parts[place] = write_field(given)
            return b"".join(parts)

        return write

    def _object_with_inlined(self, message: Message) -> Write:
        """Fields of inlined messages are fields of the object in JSON; these messages are always encoded."""
        own = Message(message.name, "object", tuple(field for field in message.fields if not field.inline))
        inlined = {
            field.number: (self._names(self._messages[field.type]), self._message(self._messages[field.type]))
            for field in message.fields
            if field.inline
        }
        others = frozenset().union(*(names for names, _ in inlined.values()))
        numbers = [field.number for field in message.fields]
        write_own = {field.number: (field.name, self._field(field)) for field in own.fields}
        known = others | {field.name for field in own.fields} | {"apiVersion", "kind"}

        def write(value: dict[str, Any]) -> bytes:
            if not value.keys() <= known:
                raise KeyError
            parts = []
            for number in numbers:
                if number in inlined:
                    names, write_message = inlined[number]
                    inner = {name: given for name, given in value.items() if name in names}
                    parts.append(put_bytes(number, write_message(inner)))
                else:
                    name, write_field = write_own[number]
                    given = value.get(name)
                    if given is not None:
                        parts.append(write_field(given))
            return b"".join(parts)

        return write

    def _names(self, message: Message) -> frozenset[str]:
        """Return the names in JSON of the fields of a message and of those that are inlined in it."""
        names: set[str] = set()
        for field in message.fields:
            names |= self._names(self._messages[field.type]) if field.inline else {field.name}
        return frozenset(names)

    def _union(self, message: Message) -> Write:
        choices = [
            (bool if field.type == "b" else list if field.label else dict, self._field(field))
            for field in message.fields
        ]

        def write(value: Any) -> bytes:
            for type_, write_field in choices:
                if isinstance(value, type_):
                    return write_field(value)
            raise TypeError

        return write

    def _field(self, field: Field) -> Write:
        number = field.number
        if field.label == "%":
            return _map(number, self._value(2, field.type))
        write = self._value(number, field.type)
        return _repeated(write) if field.label == "*" else write

    def _value(self, number: int, type_: str) -> Write:
        """Return a function that encodes the key of a field and a value that is not `None`."""
        if type_ in _VARINTS:
            key = put_key(number, VARINT)
            return lambda value: key + put_varint(value)
        if type_ == "d":
            key = put_key(number, FIXED64)
            return lambda value: key + struct.pack("<d", value)
        key = put_key(number, BYTES)
        if type_ == "s":
            return _text(key)
        if type_ in ("t", "T"):
            return _cached_times(number, WRITERS[type_])
        scalar = WRITERS.get(type_)
        if scalar is not None:
            return _bytes(key, scalar)
        if type_ == "r":
            return lambda value: put_bytes(number, put_bytes(1, msgspec.json.encode(value)))

        def write(value: dict[str, Any]) -> bytes:
            if self._depth >= MAX_DEPTH:
                raise RecursionError
            self._depth += 1
            data = self._writer(type_)(value)
            self._depth -= 1
            return key + put_varint(len(data)) + data

        return write


def _nothing(value: Any) -> bytes:
    return b""


def _optional(write: Write) -> Write:
    return lambda value: b"" if value is None else write(value)


def _text(key: bytes) -> Write:
    def write(value: str) -> bytes:
        data = value.encode()
        return key + put_varint(len(data)) + data

    return write


def _bytes(key: bytes, scalar: Write) -> Write:
    def write(value: Any) -> bytes:
        if value is None:
            raise TypeError
        data = scalar(value)
        return key + put_varint(len(data)) + data

    return write


def _cached_times(number: int, scalar: Write) -> Write:
    """Times repeat: objects are created and changed within the same second."""
    return lru_cache(maxsize=1024)(lambda value: put_bytes(number, scalar(value)))


def _repeated(write: Write) -> Write:
    def write_all(values: list[Any]) -> bytes:
        if type(values) is not list:
            raise TypeError
        return b"".join([write(value) for value in values])

    return write_all


def _map(number: int, write: Write) -> Write:
    key_of_entry, write_key = put_key(number, BYTES), _text(put_key(1, BYTES))

    def write_all(values: dict[str, Any]) -> bytes:
        parts: list[bytes] = []
        for name, value in sorted(values.items()) if len(values) > 1 else values.items():
            entry = write_key(name) + write(value)
            parts += (key_of_entry, put_varint(len(entry)), entry)
        return b"".join(parts)

    return write_all
