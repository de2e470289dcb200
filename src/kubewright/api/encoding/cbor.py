"""CBOR (RFC 8949) for the JSON data model, as Kubernetes uses it.

    encode({"kind": "Pod"})          # with the self-described tag 55799, as kube-apiserver sends it
    decode(body)                     # dict, list, str, int, float, bool or None

Rules of kube-apiserver: byte strings are text, or base64, base64url or hexadecimal under tags 22, 21 and 23;
times (tags 0 and 1) become RFC 3339 text; integers have 64 bits with sign; duplicate keys, NaN, infinity,
bignums and simple values other than false, true and null are rejected. Other tags are ignored.

`SequenceDecoder` splits a CBOR sequence (RFC 8742), the body of a watch.
"""

from __future__ import annotations

import base64
import math
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from .codec import DecodeError

MAX_DEPTH: Final = 200
"""Maximum nesting of arrays, maps and tags."""
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_INDEFINITE: Final = -1
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_INT64: Final = 1 << 63
_BREAK: Final = object()
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CBORDecodeError(DecodeError):
    """The input is not CBOR or has no equivalent in JSON."""


class _IncompleteError(CBORDecodeError):
    """The input ends within a data item."""

    def __init__(self) -> None:
        super().__init__("the CBOR data is truncated")


def _head(data: bytes | bytearray, at: int) -> tuple[int, int, int, int]:
    """Return major type, additional information, argument and the index after the head."""
    if at >= len(data):
        raise _IncompleteError
    major, info = data[at] >> 5, data[at] & 31
    at += 1
    if info < 24:
        return major, info, info, at
    if info < 28:
        end = at + (1 << (info - 24))
        if end > len(data):
            raise _IncompleteError
        return major, info, int.from_bytes(data[at:end], "big"), end
    if info == 31 and major not in (_UNSIGNED, _NEGATIVE, _TAG):
        return major, info, _INDEFINITE, at
    raise CBORDecodeError(f"invalid CBOR head 0x{data[at - 1]:02x} at offset {at - 1}")


def decode(data: bytes) -> Any:
    """Decode exactly one data item."""
    value, end = _item(data, 0, 0)
    if value is _BREAK:
        raise CBORDecodeError("unexpected CBOR break at offset 0")
    if end != len(data):
        raise CBORDecodeError(f"data after the CBOR data item at offset {end}")
    if isinstance(value, bytes):
        return _utf8(value)
    return value


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CBORDecodeError(f"CBOR string is not valid UTF-8: {error.reason}") from None


def _item(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the item at an index, and the index after it; byte strings stay bytes, for tags."""
    if depth > MAX_DEPTH:
        raise CBORDecodeError(f"CBOR data is nested deeper than {MAX_DEPTH} levels")
    start = at
    major, info, argument, at = _head(data, at)
    if major in (_BYTES, _TEXT):
        raw, at = _string(data, at, major, argument)
        return (raw if major == _BYTES else _utf8(raw)), at
    if major == _MAP:
        return _map(data, at, argument, depth)
    if major == _ARRAY:
        return _array(data, at, argument, depth)
    if major in (_UNSIGNED, _NEGATIVE):
        if argument >= _INT64:
            raise CBORDecodeError(f"CBOR integer at offset {start} does not fit into 64 bits with sign")
        return (argument if major == _UNSIGNED else -1 - argument), at
    if major == _TAG:
        value, at = _item(data, at, depth + 1)
        return _tagged(argument, value, start), at
    return _simple(data, start, info, argument, at), at


def _simple(data: bytes, start: int, info: int, argument: int, at: int) -> Any:
    layout = _FLOATS.get(info)
    if layout is not None:
        number = struct.unpack(layout, data[start + 1 : at])[0]
        if not math.isfinite(number):
            raise CBORDecodeError(f"CBOR number at offset {start} is not finite")
        return number
    if argument == _INDEFINITE:
        return _BREAK
    if info in (20, 21):
        return info == 21
    if info == 22:
        return None
    raise CBORDecodeError(f"CBOR simple value {argument} at offset {start} is not supported")


def _string(data: bytes, at: int, major: int, length: int) -> tuple[bytes, int]:
    if length != _INDEFINITE:
        end = at + length
        if end > len(data):
            raise _IncompleteError
        return data[at:end], end
    chunks: list[bytes] = []
    while True:
        kind, info, length, after = _head(data, at)
        if kind == _SIMPLE and info == 31:
            return b"".join(chunks), after
        if kind != major or length == _INDEFINITE:
            raise CBORDecodeError(f"invalid chunk of a CBOR string at offset {at}")
        chunk, at = _string(data, after, major, length)
        if major == _TEXT:
            _utf8(chunk)
        chunks.append(chunk)


def _array(data: bytes, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    # Each item has at least one byte, so a false count is rejected before anything is allocated.
    if count > len(data) - at:
        raise _IncompleteError
    items: list[Any] = []
    while len(items) != count:
        value, end = _item(data, at, depth + 1)
        if value is _BREAK:
            if count != _INDEFINITE:
                raise CBORDecodeError(f"unexpected CBOR break at offset {at}")
            return items, end
        items.append(_utf8(value) if isinstance(value, bytes) else value)
        at = end
    return items, at


def _map(data: bytes, at: int, count: int, depth: int) -> tuple[dict[str, Any], int]:
    if count > (len(data) - at) // 2:
        raise _IncompleteError
    fields: dict[str, Any] = {}
    while len(fields) != count:
        key, end = _item(data, at, depth + 1)
        if key is _BREAK and count == _INDEFINITE:
            return fields, end
        if isinstance(key, bytes):
            key = _utf8(key)
        if not isinstance(key, str):
            raise CBORDecodeError(f"CBOR map key at offset {at} is not a string")
        if key in fields:
            raise CBORDecodeError(f"duplicate CBOR map key {key!r} at offset {at}")
        value, after = _item(data, end, depth + 1)
        if value is _BREAK:
            raise CBORDecodeError(f"unexpected CBOR break at offset {end}")
        fields[key] = _utf8(value) if isinstance(value, bytes) else value
        at = after
    return fields, at


def _tagged(tag: int, value: Any, start: int) -> Any:
    if value is _BREAK:
        raise CBORDecodeError(f"unexpected CBOR break in the tag at offset {start}")
    if tag in (2, 3):
        raise CBORDecodeError(f"CBOR bignum at offset {start} is not supported")
    if tag == 0 and not isinstance(value, str | bytes):
        raise CBORDecodeError(f"CBOR time at offset {start} is not a string")
    if tag == 1:
        return _time(value, start)
    if isinstance(value, bytes):
        if tag == 21:
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        if tag == 22:
            return base64.b64encode(value).decode()
        if tag == 23:
            return value.hex().upper()
    return value


def _time(value: Any, start: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CBORDecodeError(f"CBOR time at offset {start} is not a number")
    try:
        moment = _EPOCH + timedelta(seconds=value)
    except OverflowError:
        raise CBORDecodeError(f"CBOR time at offset {start} is out of range") from None
    text = moment.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


class SequenceDecoder:
    """Decode the items of a CBOR sequence that arrives in chunks. Each byte is scanned once."""

    def __init__(self, max_item_bytes: int) -> None:
        self._max_item_bytes = max_item_bytes
        self._buffer = bytearray()
        self._at = 0
        # Remaining items of each open array, map (two for each pair) or indefinite string.
        self._open: list[int] = []

    @property
    def incomplete(self) -> bool:
        """Whether the data so far ends within an item."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[Any]:
        """Return the items that are complete with this chunk."""
        self._buffer += data
        items: list[Any] = []
        while self._scan():
            items.append(decode(bytes(self._buffer[: self._at])))
            del self._buffer[: self._at]
            self._at = 0
        if len(self._buffer) > self._max_item_bytes:
            raise CBORDecodeError(f"CBOR data item is longer than {self._max_item_bytes} bytes")
        return items

    def _scan(self) -> bool:
        """Continue to the end of the current item; return whether it is complete."""
        buffer, counts = self._buffer, self._open
        while True:
            try:
                major, info, argument, at = _head(buffer, self._at)
            except _IncompleteError:
                return False
            if major == _TAG:
                self._at = at
                continue
            if major == _SIMPLE and info == 31:
                if not counts or counts.pop() != _INDEFINITE:
                    raise CBORDecodeError("unexpected CBOR break")
            elif argument == _INDEFINITE or (major in (_ARRAY, _MAP) and argument):
                if len(counts) >= MAX_DEPTH:
                    raise CBORDecodeError(f"CBOR data is nested deeper than {MAX_DEPTH} levels")
                counts.append(argument * 2 if major == _MAP and argument > 0 else argument)
                self._at = at
                continue
            elif major in (_BYTES, _TEXT):
                at += argument
                if argument > self._max_item_bytes:
                    raise CBORDecodeError(f"CBOR data item is longer than {self._max_item_bytes} bytes")
                if at > len(buffer):
                    return False
            self._at = at
            while counts and counts[-1] != _INDEFINITE:
                counts[-1] -= 1
                if counts[-1]:
                    break
                counts.pop()
            if not counts:
                return True


def encode(value: Any) -> bytes:
    """Encode JSON data, text as byte strings.

    Raises `ValueError` for other types, numbers that are not finite and integers beyond 64 bits.
    """
    out = bytearray(SELF_DESCRIBED)
    _encode(value, out, 0)
    return bytes(out)


def _encode_head(major: int, argument: int, out: bytearray) -> None:
    if argument < 24:
        out.append(major << 5 | argument)
        return
    size = 0 if argument < 1 << 8 else 1 if argument < 1 << 16 else 2 if argument < 1 << 32 else 3
    out.append(major << 5 | 24 + size)
    out += argument.to_bytes(1 << size, "big")


def _encode(value: Any, out: bytearray, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise ValueError(f"data is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        # kube-apiserver accepts base64 for a field of bytes only in a byte string.
        text = value.encode()
        _encode_head(_BYTES, len(text), out)
        out += text
    elif value is None or isinstance(value, bool):
        out.append(0xF6 if value is None else 0xF5 if value else 0xF4)
    elif isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise ValueError(f"{value} does not fit into 64 bits with sign")
        _encode_head(_NEGATIVE if value < 0 else _UNSIGNED, -1 - value if value < 0 else value, out)
    elif isinstance(value, float):
        _encode_float(value, out)
    elif isinstance(value, dict):
        _encode_head(_MAP, len(value), out)
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"map key {key!r} is not a string")
            _encode(key, out, depth + 1)
            _encode(item, out, depth + 1)
    elif isinstance(value, list):
        _encode_head(_ARRAY, len(value), out)
        for item in value:
            _encode(item, out, depth + 1)
    else:
        raise ValueError(f"values of type {type(value).__name__} cannot be encoded as CBOR")


def _encode_float(value: float, out: bytearray) -> None:
    """Append the shortest encoding that preserves the value."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no equivalent in JSON")
    for info, layout in _FLOATS.items():
        try:
            packed = struct.pack(layout, value)
        except OverflowError:
            continue
        if struct.unpack(layout, packed)[0] == value:
            out.append(_SIMPLE << 5 | info)
            out += packed
            return
