"""Objects in protobuf, as Go clients send built-in kinds.

A body is the four bytes `k8s\\0` and an envelope that says which kind it carries:

    Unknown { 1: TypeMeta { 1: apiVersion  2: kind }  2: raw  3: contentEncoding  4: contentType }

`raw` is a message whose fields are known by number. Which number is which field comes from a table that the
caller passes (`wire_messages.Messages`), so this module is independent of kinds. Decoding returns the plain
data that the JSON form of the same object gives, with the zero values that JSON shows and protobuf omits.
Encoding is the reverse. Bytes that do not fit are a `ProtobufError` that names the field.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec

from kubewright.api.builtin.schemas import message_name
from kubewright.api.builtin.types import types_of
from kubewright.api.builtin.wire_messages import SCALARS, Field, Message, Messages
from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion
from kubewright.text_cache import cache_short

from .protobuf_wire import (
    BYTES,
    FIXED64,
    READERS,
    VARINT,
    WRITERS,
    ProtobufError,
    number_in,
    parts_of,
    put_bytes,
    put_key,
    put_varint,
    signed,
    skip,
    span,
    text_in,
    utf8,
    varint,
)
from .protobuf_writers import MAX_DEPTH, MessageWriters

MAGIC: Final = b"k8s\x00"
CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_VARINTS: Final = frozenset("iIb")
_NUMBERS: Final = frozenset("iIbd")
_OMITTED: Final[tuple[Any, ...]] = ("", 0, None, {})
"""Values that JSON leaves out of a field that may be empty (`False` is one: it equals 0)."""

Plain = dict[str, Any]


@cache
def builtin_codec(version: KubernetesVersion = NEWEST) -> ProtobufCodec:
    """Return the codec of all built-in kinds of a version of Kubernetes."""
    return ProtobufCodec(types_of(version).messages, partial(message_name, version=version))


_ENVELOPE_END: Final = put_bytes(3, b"") + put_bytes(4, b"")
"""No content encoding and no content type."""


@cache_short(maxsize=1024)
def _envelope_head(api_version: str, kind: str) -> bytes:
    """Encode the envelope of a kind up to the length of the message."""
    type_meta = put_bytes(1, api_version.encode()) + put_bytes(2, kind.encode())
    return MAGIC + put_bytes(1, type_meta) + put_key(2, BYTES)


def watch_frame(event: Plain) -> bytes:
    """Encode a watch event for a stream: length in four bytes, then type and object."""
    codec = builtin_codec()
    raw = put_bytes(1, codec.encode(event["object"]))
    message = put_bytes(1, event["type"].encode()) + put_bytes(2, raw)
    return struct.pack(">I", len(message)) + message


class _Decoding:
    """A message prepared for decoding: fields by number, and those that JSON shows if they are absent."""

    __slots__ = ("fields", "message", "omits", "shown", "texts")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.fields = {field.number: field for field in message.fields}
        self.texts = {
            field.number << 3 | BYTES: field.pointer or field.always
            for field in message.fields
            if field.type == "s" and not field.label and message.shape == "object"
        }
        """Text fields, the most frequent: whether empty text is kept, by field key."""
        self.omits = frozenset(
            field.name
            for field in message.fields
            if not (field.pointer or field.always or field.label or field.inline or field.type == "s")
        )
        self.shown = tuple(field for field in message.fields if field.always or field.inline)


class ProtobufCodec:
    """Objects to protobuf and back, by a table of messages.

    `name_of(api_version, kind)` gives the message of a kind, or `None` for a kind that has no protobuf form.
    """

    def __init__(self, messages: Messages, name_of: Callable[[str, str], str | None]) -> None:
        self.messages = messages
        self._name_of = name_of
        self._writers = MessageWriters(messages)
        self._decodings: dict[str, _Decoding] = {}
        self._custom: dict[tuple[str, str], str] = {}

    def add_kind(self, api_version: str, kind: str, list_kind: str, lines: Mapping[str, str]) -> None:
        """Add the messages of a custom kind (`schema.generation.protobuf_messages`).

        Raises `ValueError` if the kind exists with other fields.
        """
        if self._name_of(api_version, kind) is not None:
            raise ValueError(f"{api_version}, Kind={kind} is a built-in kind")
        self.messages.add(lines)
        name = next(iter(lines))
        self._custom[api_version, kind] = name
        self._custom[api_version, list_kind] = f"{name}List"

    def decode(self, body: bytes) -> Plain:
        """Decode a body: `apiVersion`, `kind` and the fields of the kind."""
        return self._open(body, 0)

    def encode(self, obj: Plain) -> bytes:
        """Encode an object with `apiVersion` and `kind`."""
        api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
        raw = self.encode_message(self._message_of(api_version, kind), obj)
        return b"".join((_envelope_head(api_version, kind), put_varint(len(raw)), raw, _ENVELOPE_END))

    def encode_list_part(self, api_version: str, kind: str, obj: Plain) -> bytes:
        """Encode a list object, or a part of one, without the envelope."""
        return self.encode_message(self._message_of(api_version, kind), obj)

    def join_list(self, api_version: str, kind: str, parts: list[bytes]) -> list[bytes | memoryview]:
        """Return the encoded list of parts (`encode_list_part`), in pieces."""
        size = sum(map(len, parts))
        return [_envelope_head(api_version, kind) + put_varint(size), *parts, _ENVELOPE_END]

    def decode_message(self, name: str, data: bytes) -> Any:
        """Decode one message without an envelope."""
        return self._read_message(name, data, 0, len(data), 0)

    def encode_message(self, name: str, value: Any) -> bytes:
        """Encode one message without an envelope."""
        try:
            return self._writers.encode(name, value)
        except Exception:  # an object that does not fit, most likely
            return self.encode_message_checked(name, value)

    def encode_message_checked(self, name: str, value: Any) -> bytes:
        """Encode one message field by field: the same bytes as `encode_message`, or the `ProtobufError`."""
        return self._write_message(name, value, "", 0)

    def _message_of(self, api_version: str, kind: str) -> str:
        name = self._custom.get((api_version, kind)) or self._name_of(api_version, kind)
        if name is None or name not in self.messages:
            raise ProtobufError(f"{api_version}, Kind={kind} has no protobuf form; send it as JSON")
        return name

    def _open(self, body: bytes, depth: int) -> Plain:
        if body[:4] != MAGIC:
            raise ProtobufError(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
            )
        parts = parts_of(body, 4, len(body))
        header, raw = parts.get(1, b""), parts.get(2, b"")
        if not isinstance(header, bytes) or not isinstance(raw, bytes):
            raise ProtobufError("the envelope does not hold a kind and a message")
        if text_in(parts, 3):
            raise ProtobufError(f"content encoding {text_in(parts, 3)!r} is not supported")
        type_meta = parts_of(header, 0, len(header))
        api_version, kind = text_in(type_meta, 1), text_in(type_meta, 2)
        if "json" in text_in(parts, 4):
            decoded: dict[str, Any] = self._json(raw, depth)
            return decoded
        name = self._message_of(api_version, kind)
        return {"apiVersion": api_version, "kind": kind, **self._read_message(name, raw, 0, len(raw), depth)}

    def _json(self, raw: bytes, depth: int) -> Any:
        """Decode raw JSON inside a message, or an object with its own envelope."""
        if not raw:
            return None
        if raw[:4] == MAGIC:
            return self._open(raw, depth + 1)
        try:
            return msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            raise ProtobufError(f"raw data is not JSON: {error}") from None

    def _decoding(self, name: str) -> _Decoding:
        found = self._decodings.get(name)
        if found is None:
            found = self._decodings[name] = _Decoding(self.messages[name])
        return found

    def _read_message(self, name: str, data: bytes, at: int, end: int, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ProtobufError(f"messages are nested more than {MAX_DEPTH} deep")
        decoding = self._decoding(name)
        fields, texts = decoding.fields, decoding.texts
        out: Plain = {}
        while at < end:
            key = data[at]
            if key < 0x80:
                at += 1
            else:
                key, at = varint(data, at, end)
            field = fields.get(key >> 3)
            if field is None:
                at = skip(data, at, end, key & 7)
                continue
            try:
                if key & 7 != BYTES:
                    at = _read_number(field, out, data, at, end, key & 7)
                    continue
                at, stop = span(data, at, end)
                if key not in texts:
                    self._read_bytes(field, out, data, at, stop, depth)
                elif at < stop or texts[key]:
                    out[field.name] = utf8(data[at:stop])
                else:
                    out.pop(field.name, None)
                at = stop
            except ProtobufError as error:
                path = f"{field.name}.{error.path}" if error.path else field.name
                raise ProtobufError(error.reason, path) from None
        shape = decoding.message.shape
        if shape == "object":
            return self._shaped(decoding, out, depth)
        return out.get("", []) if shape == "list" else _chosen(decoding.message, out)

    def _read_bytes(self, field: Field, out: Plain, data: bytes, at: int, stop: int, depth: int) -> None:
        _, name, type_, label, _, _, inline, _ = field
        if type_ in _NUMBERS:
            _read_packed(field, out, data, at, stop)
        elif label == "%":
            key, entry = self._read_entry(type_, data, at, stop, depth)
            out.setdefault(name, {})[key] = entry
        elif inline:
            out.update(self._read_message(type_, data, at, stop, depth + 1))
            out[""] = True
        else:
            value = utf8(data[at:stop]) if type_ == "s" else self._read_value(type_, data, at, stop, depth)
            if label:
                if name in out:
                    out[name].append(value)
                else:
                    out[name] = [value]
            elif type(value) is dict and type(out.get(name)) is dict and type_ not in SCALARS:
                out[name].update(value)
            else:
                out[name] = value

    def _read_value(self, type_: str, data: bytes, at: int, end: int, depth: int) -> Any:
        reader = READERS.get(type_)
        if reader is not None:
            return reader(data, at, end)
        if type_ == "r":
            return self._json(_bytes_field(data, at, end), depth)
        return self._read_message(type_, data, at, end, depth + 1)

    def _read_entry(self, type_: str, data: bytes, at: int, end: int, depth: int) -> tuple[str, Any]:
        parts = parts_of(data, at, end)
        value = parts.get(2, b"")
        if type_ in _VARINTS:
            number = number_in(parts, 2)
            return text_in(parts, 1), number != 0 if type_ == "b" else number
        if not isinstance(value, bytes):
            raise ProtobufError("a number where a map value belongs")
        return text_in(parts, 1), self._read_value(type_, value, 0, len(value), depth)

    def _shaped(self, decoding: _Decoding, out: Plain, depth: int) -> Plain:
        """Add or remove zero values as JSON does."""
        inlined = out.pop("", False)
        for name in [name for name in out if name in decoding.omits and out[name] in _OMITTED]:
            del out[name]
        for field in decoding.shown:
            if field.inline:
                if not inlined:
                    out.update(self._zero(field.type, depth))
            elif field.name not in out:
                structure = not field.label and not field.pointer and field.type not in SCALARS
                out[field.name] = self._zero(field.type, depth) if structure else field.zero
        return out

    def _zero(self, name: str, depth: int) -> Any:
        return self._read_message(name, b"", 0, 0, depth + 1)

    def _write_message(self, name: str, value: Any, path: str, depth: int) -> bytes:
        if depth > MAX_DEPTH:
            raise ProtobufError(f"nested more than {MAX_DEPTH} deep")
        message = self.messages[name]
        if message.shape == "list":
            value = {"": value}
        elif message.shape == "union":
            value = _spread(message, value, path)
        elif not isinstance(value, dict):
            raise ProtobufError(f"{type(value).__name__} where an object belongs", path or name)
        out, used = self._write_fields(message, value, path, depth)
        unknown = value.keys() - used - {"apiVersion", "kind"}
        if unknown:
            raise ProtobufError(f"no field {sorted(unknown)[0]!r} in protobuf", path or message.name)
        return out

    def _write_fields(self, message: Message, value: Plain, path: str, depth: int) -> tuple[bytes, set[str]]:
        out: list[bytes] = []
        used: set[str] = set()
        for field in message.fields:
            if field.inline:
                inner, names = self._write_fields(self.messages[field.type], value, path, depth)
                out.append(put_bytes(field.number, inner))
                used |= names
                continue
            used.add(field.name)
            given = value.get(field.name)
            if given is None:
                continue
            where = f"{path}.{field.name}" if path else field.name
            try:
                out.extend(self._write_field(field, given, where, depth))
            except ProtobufError:
                raise
            except (AttributeError, TypeError, ValueError, binascii.Error, struct.error) as error:
                raise ProtobufError(str(error), where) from error
        return b"".join(out), used

    def _write_field(self, field: Field, given: Any, path: str, depth: int) -> list[bytes]:
        number, type_ = field.number, field.type
        if field.label == "%":
            return [
                put_bytes(number, put_bytes(1, key.encode()) + self._write_value(2, type_, item, path, depth))
                for key, item in sorted(given.items())
            ]
        if field.label == "*":
            if not isinstance(given, list):
                raise TypeError(f"{type(given).__name__} where a list belongs")
            return [self._write_value(number, type_, item, path, depth) for item in given]
        return [self._write_value(number, type_, given, path, depth)]

    def _write_value(self, number: int, type_: str, value: Any, path: str, depth: int) -> bytes:
        if type_ in _VARINTS:
            if not isinstance(value, int):
                raise TypeError(f"{value!r} where a number or boolean belongs")
            return put_key(number, VARINT) + put_varint(value)
        if type_ == "d":
            return put_key(number, FIXED64) + struct.pack("<d", value)
        writer = WRITERS.get(type_)
        if writer is not None:
            return put_bytes(number, b"" if value is None else writer(value))
        if type_ == "r":
            return put_bytes(number, put_bytes(1, msgspec.json.encode(value)))
        return put_bytes(number, self._write_message(type_, {} if value is None else value, path, depth + 1))


def _bytes_field(data: bytes, at: int, end: int) -> bytes:
    raw = parts_of(data, at, end).get(1, b"")
    if not isinstance(raw, bytes):
        raise ProtobufError("a number where raw data belongs")
    return raw


def _read_number(field: Field, out: Plain, data: bytes, at: int, end: int, wire_type: int) -> int:
    type_ = field.type
    value: Any
    if wire_type == VARINT and type_ in _VARINTS:
        value, at = varint(data, at, end)
        value = value != 0 if type_ == "b" else signed(value)
    elif wire_type == FIXED64 and type_ == "d" and end - at >= 8:
        value = _shortest(struct.unpack_from("<d", data, at)[0])
        at += 8
    else:
        raise ProtobufError(f"wire type {wire_type} does not belong here")
    if field.label:
        out.setdefault(field.name, []).append(value)
    else:
        out[field.name] = value
    return at


def _read_packed(field: Field, out: Plain, data: bytes, at: int, stop: int) -> None:
    """Read packed repeated numbers."""
    if field.label != "*":
        raise ProtobufError("bytes where a number belongs")
    wire_type = FIXED64 if field.type == "d" else VARINT
    while at < stop:
        at = _read_number(field, out, data, at, stop, wire_type)


def _shortest(value: float) -> int | float:
    """Convert whole numbers to int: JSON prints them without a fraction."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _chosen(message: Message, out: Plain) -> Any:
    """Return the field of a union that is set: a list or object before a boolean."""
    values = [out.get(str(field.number)) for field in message.fields]
    for value in values:
        if isinstance(value, list | dict):
            return value
    booleans = any(field.type == "b" for field in message.fields)
    return bool(values[0]) if booleans else None


def _spread(message: Message, value: Any, path: str) -> Plain:
    for field in message.fields:
        fits = (
            isinstance(value, bool) if field.type == "b" else isinstance(value, list if field.label else dict)
        )
        if fits:
            return {str(field.number): value}
    raise ProtobufError(f"{type(value).__name__} does not belong here", path)
