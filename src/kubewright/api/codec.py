"""JSON to objects and back, in one pass each way.

A decoder is made once per type and kept. Objects decoded here remember the bytes they came from
(`model.base_of`), which is what lets an update preserve fields that this program does not know.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .meta import ListMeta, ObjectMeta
from .objects import Object, Struct, set_base
from .quantity import Quantity
from .times import Duration
from .unstructured import Unstructured

T = TypeVar("T")


class DecodeError(ValueError):
    """Bytes that are not JSON, or do not have the shape of the type asked for."""


class RawList(Struct):
    """A list whose items are still bytes: 10,000 of them split in milliseconds."""

    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class HeaderMeta(ObjectMeta):
    """Metadata whose managed fields, often the greater part of it, are still bytes."""

    managed_fields: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class ObjectHeader(Struct):
    """What can be known of an object without reading its content."""

    api_version: str = ""
    kind: str = ""
    metadata: HeaderMeta = msgspec.field(default_factory=HeaderMeta)


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Quantity | Duration):
        return str(value)
    to_wire = getattr(value, "__to_wire__", None)
    if to_wire is not None:
        return to_wire()
    raise NotImplementedError(f"{type(value).__name__} has no place in an API object")


def _decode_hook(wanted: type, value: Any) -> Any:
    if wanted in (Quantity, Duration):
        if isinstance(value, str) or (wanted is Quantity and isinstance(value, int | float)):
            return wanted(value.strip() if isinstance(value, str) else value)
        raise ValueError(f"{value!r} is not a {wanted.__name__}")
    from_wire = getattr(wanted, "__from_wire__", None)
    if from_wire is not None:
        return from_wire(value)
    raise NotImplementedError(f"fields of type {wanted.__name__} cannot be read")


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)
encode = _encoder.encode
"""Encode a struct, object or plain data as compact JSON."""


_decoders: dict[Any, tuple[msgspec.json.Decoder[Any], bool]] = {}


def _make_decoder(of: Any) -> tuple[msgspec.json.Decoder[Any], bool]:
    """The decoder for a type, and whether its values keep their bytes."""
    keeps_base = isinstance(of, type) and issubclass(of, Object | Unstructured)
    made = msgspec.json.Decoder(of, strict=False, dec_hook=_decode_hook), keeps_base
    _decoders[of] = made
    return made


def decoder(of: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder for a type; made once."""
    return (_decoders.get(of) or _make_decoder(of))[0]


def decode(data: bytes | bytearray | memoryview | msgspec.Raw, of: type[T]) -> T:
    """Decode JSON into `of`. An `Object` or `Unstructured` keeps the bytes as its base."""
    reader, keeps_base = _decoders.get(of) or _make_decoder(of)
    try:
        value: T = reader.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"cannot read {of.__name__}: {error}") from error
    if keeps_base:
        set_base(value, data if type(data) is bytes else bytes(data))
    return value


def to_plain(value: Any) -> Any:
    """Structs to plain JSON data (dicts, lists, scalars) with wire names."""
    return msgspec.to_builtins(value, enc_hook=_encode_hook, str_keys=True)


def from_plain(value: Any, of: type[T]) -> T:
    """Plain JSON data to a struct."""
    try:
        return msgspec.convert(value, of, strict=False, dec_hook=_decode_hook)
    except msgspec.ValidationError as error:
        raise DecodeError(f"cannot read {of.__name__}: {error}") from error


def loads(data: bytes | str) -> Any:
    """JSON to plain data."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not JSON: {error}") from error
