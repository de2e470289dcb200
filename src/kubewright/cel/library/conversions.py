"""Type conversions: `int(x)`, `string(x)`, `type(x)` and others."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.time import (
    conversion_error,
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
    timestamp_of_seconds,
)
from kubewright.cel.values import (
    INT_OVERFLOW,
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NANOS,
    UINT_OVERFLOW,
    TypeValue,
    UInt,
    type_of_value,
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_UNSIGNED: Final = re.compile(r"[0-9]{1,40}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_UNDERSCORE: Final = re.compile(r"(?<=[0-9])_(?=[0-9])")
_SPECIAL: Final = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_PLAIN_DIGITS: Final = 6
"""Numbers with more digits before the point are formatted with an exponent."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def int_of_string(text: str) -> int:
    """`int(string)`."""
    if _INTEGER.fullmatch(text):
        value = int(text)
        if MIN_INT <= value <= MAX_INT:
            return value
    raise conversion_error("string", "int")


def int_of_double(number: float) -> int:
    """`int(double)`: toward zero."""
    if math.isfinite(number) and -(2.0**63) < number < 2.0**63:
        return int(number)
    raise CelError(INT_OVERFLOW)


def int_of_uint(value: UInt) -> int:
    """`int(uint)`."""
    if value > MAX_INT:
        raise CelError(INT_OVERFLOW)
    return int(value)


def uint_of_string(text: str) -> UInt:
    """`uint(string)`."""
    if _UNSIGNED.fullmatch(text) and int(text) <= MAX_UINT:
        return UInt(int(text))
    raise conversion_error("string", "uint")


def uint_of_double(number: float) -> UInt:
    """`uint(double)`."""
    if math.isfinite(number) and 0 <= number < 2.0**64:
        return UInt(int(number))
    raise CelError(UINT_OVERFLOW)


def uint_of_int(value: int) -> UInt:
    """`uint(int)`."""
    if value < 0:
        raise CelError(UINT_OVERFLOW)
    return UInt(value)


def double_of_string(text: str) -> float:
    """`double(string)`."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    plain = _UNDERSCORE.sub("", text)
    if _NUMBER.fullmatch(plain):
        number = float(plain)
        if math.isfinite(number):
            return number
    elif _HEXADECIMAL.fullmatch(plain):
        try:
            return float.fromhex(plain)
        except OverflowError:
            pass
    raise conversion_error("string", "double")


def bool_of_string(text: str) -> bool:
    """`bool(string)`."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise conversion_error("string", "bool")


def string_of_bytes(value: bytes) -> str:
    """`string(bytes)`."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def string_of_double(number: float) -> str:
    """`string(double)`: the shortest form that reads back, as Go's %g."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    mantissa = f"{number!r}".partition("e")[0]
    digits = mantissa.replace("-", "").replace(".", "").lstrip("0").rstrip("0") or "0"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    scientific = f"{number:.{max(len(digits) - 1, 0)}e}"
    power = int(scientific.partition("e")[2])
    if -4 <= power < _PLAIN_DIGITS:
        return f"{number:.{max(len(digits) - 1 - power, 0)}f}"
    head, _, _ = scientific.partition("e")
    return f"{head}e{'-' if power < 0 else '+'}{abs(power):02d}"


def string_of_bool(value: bool) -> str:
    """`string(bool)`."""
    return "true" if value else "false"


def type_name(value: Any) -> TypeValue:
    """`type(x)`."""
    return TypeValue(type_of_value(value).name)


def _identity(value: Any) -> Any:
    return value


def _seconds(value: Any) -> int:
    return int(value.ns // NANOS)


def _nanoseconds(value: Any) -> int:
    return int(value.ns)


CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
"""Functions whose call with a constant is itself a constant."""

OVERLOADS: Final[list[Overload]] = [
    overload("type", "type", "(A) -> type(A)", type_name),
    overload("dyn", "to_dyn", "(A) -> dyn", _identity),
    overload("bool", "bool_to_bool", "(bool) -> bool", _identity),
    overload("bool", "string_to_bool", "(string) -> bool", bool_of_string),
    overload("bytes", "bytes_to_bytes", "(bytes) -> bytes", _identity),
    overload("bytes", "string_to_bytes", "(string) -> bytes", str.encode),
    overload("double", "double_to_double", "(double) -> double", _identity),
    overload("double", "int64_to_double", "(int) -> double", float),
    overload("double", "string_to_double", "(string) -> double", double_of_string),
    overload("double", "uint64_to_double", "(uint) -> double", float),
    overload("duration", "duration_to_duration", "(duration) -> duration", _identity),
    overload("duration", "string_to_duration", "(string) -> duration", parse_duration),
    overload("int", "int64_to_int64", "(int) -> int", _identity),
    overload("int", "double_to_int64", "(double) -> int", int_of_double),
    overload("int", "duration_to_int64", "(duration) -> int", _nanoseconds),
    overload("int", "string_to_int64", "(string) -> int", int_of_string),
    overload("int", "timestamp_to_int64", "(timestamp) -> int", _seconds),
    overload("int", "uint64_to_int64", "(uint) -> int", int_of_uint),
    overload("string", "string_to_string", "(string) -> string", _identity),
    overload("string", "bool_to_string", "(bool) -> string", string_of_bool),
    overload("string", "bytes_to_string", "(bytes) -> string", string_of_bytes),
    overload("string", "double_to_string", "(double) -> string", string_of_double),
    overload("string", "duration_to_string", "(duration) -> string", format_duration),
    overload("string", "int64_to_string", "(int) -> string", str),
    overload("string", "timestamp_to_string", "(timestamp) -> string", format_timestamp),
    overload("string", "uint64_to_string", "(uint) -> string", str),
    overload("timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", _identity),
    overload("timestamp", "int64_to_timestamp", "(int) -> timestamp", timestamp_of_seconds),
    overload("timestamp", "string_to_timestamp", "(string) -> timestamp", parse_timestamp),
    overload("uint", "uint64_to_uint64", "(uint) -> uint", _identity),
    overload("uint", "double_to_uint64", "(double) -> uint", uint_of_double),
    overload("uint", "int64_to_uint64", "(int) -> uint", uint_of_int),
    overload("uint", "string_to_uint64", "(string) -> uint", uint_of_string),
]
