"""Run-time values and their equality.

Most values are plain Python: bool, int, float, str, bytes, None, list, dict. Classes exist where CEL
distinguishes what Python does not: `UInt` (an int that remembers its type), `TimestampValue` and
`DurationValue` (nanoseconds), `Optional`, `TypeValue`, and `SetList`/`MapList` for lists whose equality
ignores order. Other modules add opaque values (URL, IP, ...) as subclasses of `Opaque`.

`True == 1` in Python, but not in CEL: compare values of unknown type with `equal`, never with `==`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubewright.cel.checking.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_type,
    map_type,
    optional_type,
)
from kubewright.cel.errors import CelError

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1
NANOS: Final = 1_000_000_000

INT_OVERFLOW: Final = "integer overflow"
UINT_OVERFLOW: Final = "unsigned integer overflow"


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class DurationValue:
    """A duration in nanoseconds, within 64 bits."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DurationValue) and other.ns == self.ns

    def __hash__(self) -> int:
        return hash(("duration", self.ns))

    def __lt__(self, other: DurationValue) -> bool:
        return self.ns < other.ns

    def __repr__(self) -> str:
        return f"DurationValue({self.ns})"


class TimestampValue:
    """A point in time in nanoseconds since 1970, from year 1 to year 9999.

    `offset` is the zone of its literal, in seconds; only `string(timestamp)` uses it.
    """

    __slots__ = ("ns", "offset")

    def __init__(self, ns: int, offset: int = 0) -> None:
        self.ns = ns
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimestampValue) and other.ns == self.ns

    def __hash__(self) -> int:
        return hash(("timestamp", self.ns))

    def __lt__(self, other: TimestampValue) -> bool:
        return self.ns < other.ns

    def __repr__(self) -> str:
        return f"TimestampValue({self.ns})"


class Optional:
    """A value that may be absent; `NONE` is the absent one."""

    __slots__ = ("has_value", "value")

    def __init__(self, value: Any, has_value: bool = True) -> None:
        self.value = value
        self.has_value = has_value

    def get(self) -> Any:
        """The value, or an evaluation error."""
        if not self.has_value:
            raise CelError("optional.none() dereference")
        return self.value

    def __repr__(self) -> str:
        return f"Optional({self.value!r})" if self.has_value else "Optional.none"


NONE: Final = Optional(None, has_value=False)


class Opaque:
    """A value that only its own functions inspect."""

    __slots__ = ()
    cel_type: Type

    def equals(self, other: Any) -> bool:
        """Whether another value of the same class is equal."""
        return self is other


class TypeValue:
    """A type as a value, the result of `type(x)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("type", self.name))

    def __repr__(self) -> str:
        return f"TypeValue({self.name})"


class SetList(list[Any]):
    """A list of type set: order does not matter, `+` adds what is missing."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of type map: elements are identified by their key fields, `+` replaces and adds."""

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys


MAX_LIST: Final = 5_000_000
"""Limit of the elements of a new list."""
_NUMBERS: Final = frozenset({int, UInt, float})
_LISTS: Final = frozenset({list, SetList, MapList})


def equal(left: Any, right: Any) -> bool:
    """CEL equality of any two values; numbers compare across their types."""
    kind = type(left)
    other = type(right)
    if kind in _NUMBERS:
        if other not in _NUMBERS:
            return False
        if (kind is float) is not (other is float):
            return float(left) == float(right)
        return bool(left == right)
    if kind in _LISTS:
        return other in _LISTS and lists_equal(left, right)
    if kind is not other:
        return False
    if kind is dict:
        return maps_equal(left, right)
    if kind is Optional:
        if not left.has_value or not right.has_value:
            return bool(left.has_value == right.has_value)
        return equal(left.value, right.value)
    if isinstance(left, Opaque):
        return left.equals(right)
    return bool(left == right)


def lists_equal(left: list[Any], right: list[Any]) -> bool:
    """Equality of lists: in order, or as sets or keyed maps if the left one is such a list."""
    if len(left) != len(right):
        return False
    if type(left) is SetList:
        remaining = hashable_set(right)
        if remaining is not None:
            wanted = hashable_set(left)
            return wanted == remaining
        return all(contains(right, item) for item in left) and all(contains(left, item) for item in right)
    if type(left) is MapList:
        try:
            index = {_map_key(item, left.keys): item for item in right}
            return all(
                (found := index.get(_map_key(item, left.keys))) is not None and equal(item, found)
                for item in left
            )
        except TypeError:
            return False
    return all(map(equal, left, right))


def maps_equal(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    """Equality of maps and objects: the same keys with equal values."""
    if len(left) != len(right):
        return False
    for key, value in left.items():
        if key not in right or not equal(value, right[key]):
            return False
        if type(key) is bool and not any(type(other) is bool and other == key for other in right):
            return False
    return True


def _map_key(item: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(item, dict):
        raise CelError("expected map list elements to be objects")
    return tuple((type(item.get(key)) is bool, item.get(key)) for key in keys)


def hashable_set(items: list[Any]) -> set[Any] | None:
    """Return the values as a Python set if they are scalars that Python compares as CEL does."""
    kinds = set(map(type, items))
    if kinds <= {str} or kinds <= {bool} or kinds <= {bytes} or kinds <= _NUMBERS:
        return set(items)
    return None


def contains(items: list[Any], value: Any) -> bool:
    """`value in items`."""
    if type(value) is str:
        return value in items
    return any(equal(value, item) for item in items)


def check_list_size(size: int) -> None:
    """Raise `CelError` if a new list would exceed the size limit."""
    if size > MAX_LIST:
        raise CelError(f"list size {size} exceeds limit {MAX_LIST}")


def add_lists(left: list[Any], right: list[Any]) -> list[Any]:
    """`left + right`, merging if the left one is a set or a keyed map."""
    check_list_size(len(left) + len(right))
    if type(left) is SetList:
        known = hashable_set(left + right)
        if known is not None:
            return SetList(dict.fromkeys(left + right))
        return SetList(left + [item for item in right if not contains(left, item)])
    if type(left) is MapList:
        merged = {_map_key(item, left.keys): item for item in left}
        for item in right:
            merged[_map_key(item, left.keys)] = item
        return MapList(merged.values(), left.keys)
    return [*left, *right]


def type_of_value(value: Any) -> Type:
    """Return the run-time type of a value."""
    known = _TYPES.get(type(value))
    if known is not None:
        return known
    if isinstance(value, Opaque):
        return value.cel_type
    return DYN


_TYPES: Final[dict[type, Type]] = {
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
    TimestampValue: TIMESTAMP,
    DurationValue: DURATION,
    list: list_type(DYN),
    SetList: list_type(DYN),
    MapList: list_type(DYN),
    dict: map_type(DYN, DYN),
    Optional: optional_type(DYN),
    TypeValue: TYPE,
}


def no_overload(function: str = "") -> CelError:
    """Return the error for arguments that match no overload."""
    return CelError("no such overload" + (f": {function}" if function else ""))


def checked_int(value: int) -> int:
    """The value if it fits into 64 bits."""
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    raise CelError(INT_OVERFLOW)


def checked_uint(value: int) -> UInt:
    """The value as an unsigned integer if it fits into 64 bits."""
    if 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        return UInt(value)
    raise CelError(UINT_OVERFLOW)


def size_of(value: Any) -> int:
    """Return the size for cost: length of strings, bytes, lists and maps, otherwise 1."""
    kind = type(value)
    if kind is str or kind is bytes or kind is list or kind is dict or kind in _LISTS:
        return len(value)
    if kind is Optional and value.has_value:
        return size_of(value.value)
    size: int | None = getattr(value, "cost_size", None)
    return 1 if size is None else size


def is_zero(value: Any) -> bool:
    """Return whether a value is the zero value of its type, for `optional.ofNonZeroValue`."""
    if value is None:
        return True
    if isinstance(value, DurationValue | TimestampValue):
        return value.ns == 0
    if isinstance(value, Optional):
        return not value.has_value
    if isinstance(value, bool | int | float | str | bytes | list | dict):
        return not value
    return False
