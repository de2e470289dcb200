"""Protobuf wire format: varints, lengths, and small messages that are scalars in JSON.

Everything is read from a span of one buffer (`data`, from `at` to `end`) without copying. A quantity is `{1:
text}`, an int-or-string `{1: which, 2: number, 3: text}`, a time `{1: seconds, 2: nanoseconds}` (an empty
message is null), a duration `{1: nanoseconds}`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from kubewright.api.values.times import Duration, format_micro_time, format_time, parse_time

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MASK64: Final = (1 << 64) - 1
_NEGATIVE: Final = 1 << 63
_SMALL: Final = (
    *(bytes((value,)) for value in range(0x80)),
    *(bytes((value & 0x7F | 0x80, value >> 7)) for value in range(0x80, 0x400)),
)
"""Varints of small numbers: most lengths."""
_MAX_SECONDS: Final = 253_402_300_799
_MIN_SECONDS: Final = -62_135_596_800


class ProtobufError(ValueError):
    """A body that does not fit its message, or an object that has no protobuf form."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a varint of up to 64 bits; return it and the next position."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, at
        shift += 7
        if shift > 63:
            raise ProtobufError("a number is longer than 64 bits")
    raise ProtobufError("the message ends inside a number")


def signed(value: int) -> int:
    """Interpret 64 bits as a signed number."""
    return value - (1 << 64) if value >= _NEGATIVE else value


def span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return start and end of a length-delimited value."""
    if at < end and data[at] < 0x80:
        size = data[at]
        at += 1
    else:
        size, at = varint(data, at, end)
    if size > end - at:
        raise ProtobufError(f"a value of {size} bytes does not fit the {end - at} that are left")
    return at, at + size


def skip(data: bytes, at: int, end: int, wire_type: int) -> int:
    """Return the end of the value of an unknown field."""
    if wire_type == VARINT:
        return varint(data, at, end)[1]
    if wire_type == BYTES:
        return span(data, at, end)[1]
    at += {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)
    if wire_type not in (FIXED64, FIXED32) or at > end:
        raise ProtobufError(f"wire type {wire_type} is not one of protobuf's, or is cut short")
    return at


def parts_of(data: bytes, at: int, end: int) -> dict[int, Any]:
    """Read a message of scalar fields: number to integer or bytes; the last value of a field wins."""
    found: dict[int, Any] = {}
    while at < end:
        key, at = varint(data, at, end)
        if key & 7 == VARINT:
            found[key >> 3], at = varint(data, at, end)
        elif key & 7 == BYTES:
            start, at = span(data, at, end)
            found[key >> 3] = data[start:at]
        else:
            at = skip(data, at, end, key & 7)
    return found


def number_in(parts: dict[int, Any], number: int) -> int:
    """Return a signed number field; 0 if absent."""
    value = parts.get(number, 0)
    if not isinstance(value, int):
        raise ProtobufError(f"field {number} is bytes where a number belongs")
    return signed(value)


def text_in(parts: dict[int, Any], number: int) -> str:
    """Return a text field; empty if absent."""
    value = parts.get(number, b"")
    if not isinstance(value, bytes):
        raise ProtobufError(f"field {number} is a number where text belongs")
    return utf8(value)


def utf8(value: bytes) -> str:
    """Decode UTF-8; raises `ProtobufError` with the position."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"text is not UTF-8: {error.reason} at byte {error.start}") from None


def _read_quantity(data: bytes, at: int, end: int) -> str:
    return text_in(parts_of(data, at, end), 1) or "0"


def _read_int_or_string(data: bytes, at: int, end: int) -> int | str:
    parts = parts_of(data, at, end)
    return text_in(parts, 3) if number_in(parts, 1) else number_in(parts, 2)


def _moment(parts: dict[int, Any], microseconds: bool) -> datetime:
    seconds, nanos = number_in(parts, 1), number_in(parts, 2)
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS or not 0 <= nanos < 1_000_000_000:
        raise ProtobufError(
            f"{seconds} s and {nanos} ns since 1970 is not a time between the years 1 and 9999"
        )
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000 if microseconds else 0)


def _read_time(data: bytes, at: int, end: int) -> str | None:
    return format_time(_moment(parts_of(data, at, end), False)) if at < end else None


def _read_micro_time(data: bytes, at: int, end: int) -> str | None:
    return format_micro_time(_moment(parts_of(data, at, end), True)) if at < end else None


def _read_duration(data: bytes, at: int, end: int) -> str:
    duration = Duration()
    duration.nanoseconds = number_in(parts_of(data, at, end), 1)
    return str(duration)


READERS: Final[dict[str, Callable[[bytes, int, int], Any]]] = {
    "s": lambda data, at, end: utf8(data[at:end]),
    "y": lambda data, at, end: base64.b64encode(data[at:end]).decode(),
    "q": _read_quantity,
    "o": _read_int_or_string,
    "t": _read_time,
    "T": _read_micro_time,
    "D": _read_duration,
}


@cache
def put_key(number: int, wire_type: int) -> bytes:
    """Encode a field key."""
    return put_varint(number << 3 | wire_type)


def put_varint(value: int) -> bytes:
    """Encode a varint; a negative number takes ten bytes."""
    if 0 <= value < 0x400:
        return _SMALL[value]
    value &= _MASK64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_bytes(number: int, value: bytes) -> bytes:
    """Encode a length-delimited field."""
    return put_key(number, BYTES) + put_varint(len(value)) + value


def _write_time(value: Any, microseconds: bool) -> bytes:
    since = parse_time(value) - _EPOCH
    out = put_key(1, VARINT) + put_varint(since.days * 86_400 + since.seconds)
    nanos = since.microseconds * 1000 if microseconds else 0
    return out + put_key(2, VARINT) + put_varint(nanos)


def _write_int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return put_key(1, VARINT) + b"\x01" + put_bytes(3, value.encode())
    return put_key(1, VARINT) + b"\x00" + put_key(2, VARINT) + put_varint(value)


WRITERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "s": lambda value: value.encode(),
    "y": lambda value: base64.b64decode(value, validate=True),
    "q": lambda value: put_bytes(1, str(value).encode()),
    "o": _write_int_or_string,
    "t": lambda value: _write_time(value, False),
    "T": lambda value: _write_time(value, True),
    "D": lambda value: put_key(1, VARINT) + put_varint(Duration(value).nanoseconds),
}
