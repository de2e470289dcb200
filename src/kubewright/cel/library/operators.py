"""Operators on values of any type: arithmetic, order, indexing, membership and size.

Integers have 64 bits, and overflow is an error; numbers of different types compare by value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.time import checked_duration, checked_timestamp
from kubewright.cel.values import (
    INT_OVERFLOW,
    DurationValue,
    TimestampValue,
    UInt,
    add_lists,
    checked_int,
    checked_uint,
    contains,
    equal,
    type_of_value,
)


def add_int(left: int, right: int) -> int:
    """`int + int`."""
    value = left + right
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    raise CelError(INT_OVERFLOW)


def subtract_int(left: int, right: int) -> int:
    """`int - int`."""
    return checked_int(left - right)


def multiply_int(left: int, right: int) -> int:
    """`int * int`."""
    return checked_int(left * right)


def divide_int(left: int, right: int) -> int:
    """`int / int`, toward zero."""
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def modulo_int(left: int, right: int) -> int:
    """`int % int`, with the sign of the left."""
    if right == 0:
        raise CelError("modulus by zero")
    if right == -1 and left == -0x8000000000000000:
        raise CelError(INT_OVERFLOW)
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate_int(value: int) -> int:
    """`-int`."""
    return checked_int(-value)


def _add_uint(left: int, right: int) -> UInt:
    return checked_uint(left + right)


def _subtract_uint(left: int, right: int) -> UInt:
    return checked_uint(int(left) - int(right))


def _multiply_uint(left: int, right: int) -> UInt:
    return checked_uint(left * right)


def _divide_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise CelError("division by zero")
    return UInt(left // right)


def _modulo_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise CelError("modulus by zero")
    return UInt(left % right)


def _add(left: Any, right: Any) -> Any:
    return left + right


def _subtract(left: Any, right: Any) -> Any:
    return left - right


def _multiply(left: Any, right: Any) -> Any:
    return left * right


def divide_double(left: float, right: float) -> float:
    """`double / double` by IEEE 754."""
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def _negate_double(value: float) -> float:
    return -value


def _add_durations(left: DurationValue, right: DurationValue) -> DurationValue:
    return checked_duration(left.ns + right.ns)


def _subtract_durations(left: DurationValue, right: DurationValue) -> DurationValue:
    return checked_duration(left.ns - right.ns)


def _later(left: TimestampValue, right: DurationValue) -> TimestampValue:
    return checked_timestamp(left.ns + right.ns, left.offset)


def _later_reversed(left: DurationValue, right: TimestampValue) -> TimestampValue:
    return checked_timestamp(left.ns + right.ns, right.offset)


def _earlier(left: TimestampValue, right: DurationValue) -> TimestampValue:
    return checked_timestamp(left.ns - right.ns, left.offset)


def _between(left: TimestampValue, right: TimestampValue) -> DurationValue:
    return checked_duration(left.ns - right.ns)


def _ordered(left: Any, right: Any) -> None:
    if (type(left) is float and left != left) or (type(right) is float and right != right):
        raise CelError("NaN values cannot be ordered")


def less(left: Any, right: Any) -> bool:
    """`left < right`."""
    _ordered(left, right)
    return bool(left < right)


def less_equals(left: Any, right: Any) -> bool:
    """`left <= right`."""
    _ordered(left, right)
    return not right < left


def greater(left: Any, right: Any) -> bool:
    """`left > right`."""
    _ordered(left, right)
    return bool(right < left)


def greater_equals(left: Any, right: Any) -> bool:
    """`left >= right`."""
    _ordered(left, right)
    return not left < right


def list_item(items: list[Any], index: Any) -> Any:
    """`items[index]`; other numeric types are accepted if integral."""
    kind = type(index)
    if kind is float and index.is_integer():
        index = int(index)
    elif kind is not int and kind is not UInt:
        if kind is float:
            raise CelError(f"unsupported index value {index} in list")
        raise CelError(f"unsupported index type '{type_of_value(index)}' in list")
    if 0 <= index < len(items):
        return items[index]
    raise CelError(f"index out of bounds: {int(index)}")


def map_value(mapping: dict[Any, Any], key: Any) -> Any:
    """`mapping[key]`."""
    if has_key(mapping, key):
        return mapping[key]
    raise CelError(f"no such key: {show_key(key)}")


def has_key(mapping: dict[Any, Any], key: Any) -> bool:
    """`key in mapping`; `true` is not 1 here."""
    try:
        if key not in mapping:
            return False
    except TypeError:
        return False
    kind = type(key)
    if kind is str:
        return True
    if kind is bool or any(type(found) is bool for found in mapping):
        return any((type(found) is bool) == (kind is bool) and found == key for found in mapping)
    return True


def show_key(key: Any) -> str:
    """Return a key as errors print it."""
    if type(key) is bool:
        return "true" if key else "false"
    return str(key)


def no_such_key(container: Any, key: Any) -> CelError:
    """Return the error of selecting a missing key, or from a value without keys."""
    if isinstance(container, list) and type(key) is str:
        return CelError("unsupported index type 'string' in list")
    return CelError(f"no such key: {show_key(key)}")


def index_any(container: Any, key: Any) -> Any:
    """`container[key]` of dynamic values."""
    if isinstance(container, list):
        return list_item(container, key)
    if type(container) is dict:
        return map_value(container, key)
    raise no_such_key(container, key)


def in_list(value: Any, items: list[Any]) -> bool:
    """`value in items`."""
    return contains(items, value)


def in_map(value: Any, mapping: dict[Any, Any]) -> bool:
    """`value in mapping`."""
    return has_key(mapping, value)


def not_equal(left: Any, right: Any) -> bool:
    """`left != right`."""
    return not equal(left, right)


def _not(value: bool) -> bool:
    return not value


_ORDERED_TYPES: Final = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_NUMERIC: Final = ("int", "uint", "double")
_IDS: Final = {"int": "int64", "uint": "uint64"}


def _comparison(function: str, word: str, impl: Callable[[Any, Any], bool]) -> list[Overload]:
    found = []
    for name in _ORDERED_TYPES:
        found.append(overload(function, f"{word}_{_IDS.get(name, name)}", f"({name}, {name}) -> bool", impl))
        for other in _NUMERIC:
            if name in _NUMERIC and other != name:
                id = f"{word}_{_IDS.get(name, name)}_{_IDS.get(other, other)}"
                found.append(overload(function, id, f"({name}, {other}) -> bool", impl))
    return found


OVERLOADS: Final[list[Overload]] = [
    overload("_?_:_", "conditional", "(bool, A, A) -> A"),
    overload("_&&_", "logical_and", "(bool, bool) -> bool"),
    overload("_||_", "logical_or", "(bool, bool) -> bool"),
    overload("!_", "logical_not", "(bool) -> bool", _not),
    overload("@not_strictly_false", "not_strictly_false", "(bool) -> bool"),
    overload("_==_", "equals", "(A, A) -> bool", equal),
    overload("_!=_", "not_equals", "(A, A) -> bool", not_equal),
    overload("_+_", "add_bytes", "(bytes, bytes) -> bytes", _add),
    overload("_+_", "add_double", "(double, double) -> double", _add),
    overload("_+_", "add_duration_duration", "(duration, duration) -> duration", _add_durations),
    overload("_+_", "add_duration_timestamp", "(duration, timestamp) -> timestamp", _later_reversed),
    overload("_+_", "add_timestamp_duration", "(timestamp, duration) -> timestamp", _later),
    overload("_+_", "add_int64", "(int, int) -> int", add_int),
    overload("_+_", "add_list", "(list(A), list(A)) -> list(A)", add_lists),
    overload("_+_", "add_string", "(string, string) -> string", _add),
    overload("_+_", "add_uint64", "(uint, uint) -> uint", _add_uint),
    overload("_/_", "divide_double", "(double, double) -> double", divide_double),
    overload("_/_", "divide_int64", "(int, int) -> int", divide_int),
    overload("_/_", "divide_uint64", "(uint, uint) -> uint", _divide_uint),
    overload("_%_", "modulo_int64", "(int, int) -> int", modulo_int),
    overload("_%_", "modulo_uint64", "(uint, uint) -> uint", _modulo_uint),
    overload("_*_", "multiply_double", "(double, double) -> double", _multiply),
    overload("_*_", "multiply_int64", "(int, int) -> int", multiply_int),
    overload("_*_", "multiply_uint64", "(uint, uint) -> uint", _multiply_uint),
    overload("-_", "negate_double", "(double) -> double", _negate_double),
    overload("-_", "negate_int64", "(int) -> int", negate_int),
    overload("_-_", "subtract_double", "(double, double) -> double", _subtract),
    overload("_-_", "subtract_duration_duration", "(duration, duration) -> duration", _subtract_durations),
    overload("_-_", "subtract_int64", "(int, int) -> int", subtract_int),
    overload("_-_", "subtract_timestamp_duration", "(timestamp, duration) -> timestamp", _earlier),
    overload("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration", _between),
    overload("_-_", "subtract_uint64", "(uint, uint) -> uint", _subtract_uint),
    *_comparison("_<_", "less", less),
    *_comparison("_<=_", "less_equals", less_equals),
    *_comparison("_>_", "greater", greater),
    *_comparison("_>=_", "greater_equals", greater_equals),
    overload("_[_]", "index_list", "(list(A), int) -> A", list_item),
    overload("_[_]", "index_map", "(map(A, B), A) -> B", map_value),
    overload("@in", "in_list", "(A, list(A)) -> bool", in_list),
    overload("@in", "in_map", "(A, map(A, B)) -> bool", in_map),
    overload("size", "size_bytes", "(bytes) -> int", len),
    overload("size", "bytes_size", "bytes.() -> int", len),
    overload("size", "size_list", "(list(A)) -> int", len),
    overload("size", "list_size", "list(A).() -> int", len),
    overload("size", "size_map", "(map(A, B)) -> int", len),
    overload("size", "map_size", "map(A, B).() -> int", len),
    overload("size", "size_string", "(string) -> int", len),
    overload("size", "string_size", "string.() -> int", len),
]
