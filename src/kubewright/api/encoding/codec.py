"""Decode JSON to objects and encode objects to JSON, each in one pass.

Decoders are cached by type. A decoded object keeps the bytes that it was decoded from (`objects.base_of`), so
that an update preserves fields that its class does not have.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import Any, Final, TypeVar

import msgspec

from kubewright.api.meta import ListMeta, ObjectMeta
from kubewright.api.objects import Object, Struct, set_base
from kubewright.api.presence import DefaultValue, settled
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Duration

T = TypeVar("T")


class DecodeError(ValueError):
    """The input is not JSON or does not match the requested type."""


class RawList(Struct):
    """A list whose items are not decoded; splitting 10,000 items takes milliseconds."""

    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class HeaderMeta(ObjectMeta):
    """Metadata whose managed fields, often its largest part, are not decoded."""

    managed_fields: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class ObjectHeader(Struct):
    """API version, kind and metadata of an object, decoded without the rest."""

    api_version: str = ""
    kind: str = ""
    metadata: HeaderMeta = msgspec.field(default_factory=HeaderMeta)


class _DefaultReadError(Exception):
    """A struct contains a default that was read, and may have been changed."""


_OMITTED: Final = b"\0" + token_bytes(16).hex().encode()
"""What an unchanged default is encoded as, until the field is removed; JSON has no zero bytes."""
_RAW_OMITTED: Final = msgspec.Raw(_OMITTED)


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Quantity | Duration):
        return str(value)
    if type(value) is DefaultValue:
        raise _DefaultReadError
    to_wire = getattr(value, "__to_wire__", None)
    if to_wire is not None:
        return to_wire()
    raise NotImplementedError(f"values of type {type(value).__name__} cannot be encoded")


def _decode_hook(wanted: type, value: Any) -> Any:
    if wanted in (Quantity, Duration):
        if isinstance(value, str) or (wanted is Quantity and isinstance(value, int | float)):
            return wanted(value.strip() if isinstance(value, str) else value)
        raise ValueError(f"{value!r} is not a {wanted.__name__}")
    from_wire = getattr(wanted, "__from_wire__", None)
    if from_wire is not None:
        return from_wire(value)
    raise NotImplementedError(f"fields of type {wanted.__name__} cannot be decoded")


def _encode_defaults_hook(value: Any) -> Any:
    if type(value) is DefaultValue:
        content = settled(value)
        return _RAW_OMITTED if content is msgspec.UNSET else content
    return _encode_hook(value)


_encode: Final = msgspec.json.Encoder(enc_hook=_encode_hook).encode
_encode_defaults: Final = msgspec.json.Encoder(enc_hook=_encode_defaults_hook).encode


def encode(value: Any) -> bytes:
    """Encode a struct, object or plain data as compact JSON."""
    try:
        return _encode(value)
    except _DefaultReadError:
        return _remove_omitted(_encode_defaults(value))


def _remove_omitted(encoded: bytes) -> bytes:
    """Remove the fields whose values are marked, with the comma before or after them."""
    first, *rest = encoded.split(_OMITTED)
    if not rest:
        return encoded
    parts = [_without_last_key(first)]
    for part in rest[:-1]:
        parts.append(_without_last_key(_continued(parts, part)))
    parts.append(_continued(parts, rest[-1]))
    return b"".join(parts)


def _without_last_key(part: bytes) -> bytes:
    return part[: part.rindex(b'"', 0, -2)].removesuffix(b",")  # msgspec rejects names with quotes


def _continued(parts: list[bytes], part: bytes) -> bytes:
    """Return what follows a removed field; the first field of an object has no comma before it."""
    before = next(each for each in reversed(parts) if each)
    return part.removeprefix(b",") if before.endswith(b"{") else part


_decoders: dict[Any, tuple[msgspec.json.Decoder[Any], bool]] = {}


def _make_decoder(of: Any) -> tuple[msgspec.json.Decoder[Any], bool]:
    """Create the decoder for a type; the second value is whether objects keep their bytes."""
    keeps_base = isinstance(of, type) and issubclass(of, Object | Unstructured)
    made = msgspec.json.Decoder(of, strict=False, dec_hook=_decode_hook), keeps_base
    _decoders[of] = made
    return made


def decoder(of: type[T]) -> msgspec.json.Decoder[T]:
    """Return the cached decoder for a type."""
    return (_decoders.get(of) or _make_decoder(of))[0]


def decode(data: bytes | bytearray | memoryview | msgspec.Raw, of: type[T]) -> T:
    """Decode JSON into `of`. An `Object` or `Unstructured` keeps the bytes as its base."""
    reader, keeps_base = _decoders.get(of) or _make_decoder(of)
    try:
        value: T = reader.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"cannot decode {of.__name__}: {error}") from error
    if keeps_base:
        set_base(value, data if type(data) is bytes else bytes(data))
    return value


def to_plain(value: Any) -> Any:
    """Convert structs to plain JSON data (dicts, lists, scalars) with JSON field names."""
    try:
        return msgspec.to_builtins(value, enc_hook=_encode_hook, str_keys=True)
    except _DefaultReadError:
        return msgspec.json.decode(encode(value))


def from_plain(value: Any, of: type[T]) -> T:
    """Convert plain JSON data to a struct."""
    try:
        return msgspec.convert(value, of, strict=False, dec_hook=_decode_hook)
    except msgspec.ValidationError as error:
        raise DecodeError(f"cannot decode {of.__name__}: {error}") from error


def loads(data: bytes | str) -> Any:
    """Decode JSON to plain data."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"not JSON: {error}") from error
