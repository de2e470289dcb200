"""Functions on lists: order, sums, positions, slices, sorting, ranges."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final

from kubewright.cel.errors import CelError
from kubewright.cel.functions import Overload, overload
from kubewright.cel.library.operators import add_int, less
from kubewright.cel.library.time import checked_duration
from kubewright.cel.values import (
    NONE,
    DurationValue,
    Optional,
    UInt,
    check_list_size,
    checked_uint,
    equal,
    hashable_set,
    no_overload,
    type_of_value,
)

MAX_RANGE: Final = 1_000_000
"""Maximum size of `lists.range`: the cost limit of one expression."""
_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def is_sorted(items: list[Any]) -> bool:
    """`items.isSorted()`."""
    return all(not less(items[index], items[index - 1]) for index in range(1, len(items)))


def least(items: list[Any]) -> Any:
    """`items.min()`."""
    return _extreme(items, "min", less)


def greatest(items: list[Any]) -> Any:
    """`items.max()`."""
    return _extreme(items, "max", lambda left, right: less(right, left))


def _extreme(items: list[Any], name: str, better: Callable[[Any, Any], bool]) -> Any:
    if not items:
        raise CelError(f"{name} called on empty list")
    best = items[0]
    for item in items:
        if better(item, best):
            best = item
    return best


def _sum_int(items: list[int]) -> int:
    total = 0
    for item in items:
        if type(item) is not int:
            raise no_overload()
        total = add_int(total, item)
    return total


def _sum_uint(items: list[int]) -> UInt:
    total = UInt(0)
    for item in items:
        total = checked_uint(total + item)
    return total


def _sum_double(items: list[float]) -> float:
    total = 0.0
    for item in items:
        total += item
    return total


def _sum_duration(items: list[DurationValue]) -> DurationValue:
    total = DurationValue(0)
    for item in items:
        total = checked_duration(total.ns + item.ns)
    return total


def index_of(items: list[Any], value: Any) -> int:
    """`items.indexOf(value)`."""
    for index, item in enumerate(items):
        if equal(item, value):
            return index
    return -1


def last_index_of(items: list[Any], value: Any) -> int:
    """`items.lastIndexOf(value)`."""
    for index in range(len(items) - 1, -1, -1):
        if equal(items[index], value):
            return index
    return -1


def slice_of(items: list[Any], start: int, end: int) -> list[Any]:
    """`items.slice(start, end)`."""
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def flatten(items: list[Any], depth: int = 1) -> list[Any]:
    """`items.flatten(depth)`."""
    if depth < 0:
        raise CelError("level must be non-negative")
    for _ in range(depth):
        if not any(isinstance(item, list) for item in items):
            break
        check_list_size(sum(len(item) if isinstance(item, list) else 1 for item in items))
        flat: list[Any] = []
        for item in items:
            if isinstance(item, list):
                flat.extend(item)
            else:
                flat.append(item)
        items = flat
    return list(items)


def number_range(count: int) -> list[int]:
    """`lists.range(count)`."""
    if count < 0:
        raise CelError(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise CelError(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


def reverse(items: list[Any]) -> list[Any]:
    """`items.reverse()`."""
    return items[::-1]


def distinct(items: list[Any]) -> list[Any]:
    """`items.distinct()`: the first of each."""
    if hashable_set(items) is not None:
        return list(dict.fromkeys(items))
    kept: list[Any] = []
    for item in items:
        if not any(equal(item, other) for other in kept):
            kept.append(item)
    return kept


def sort(items: list[Any]) -> list[Any]:
    """`items.sort()`."""
    return [item for item, _ in _ordered(items, items)]


def sort_by_keys(items: list[Any], keys: list[Any]) -> list[Any]:
    """`items.sortBy(x, key)`."""
    if len(items) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list,"
            f" but got {len(items)} and {len(keys)} elements respectively"
        )
    return [item for item, _ in _ordered(items, keys)]


def _ordered(items: list[Any], keys: list[Any]) -> list[tuple[Any, Any]]:
    if keys:
        first = type_of_value(keys[0])
        if str(first) not in _COMPARABLE:
            raise CelError("list elements must be comparable")
        if any(not type_of_value(key).same(first) for key in keys):
            raise CelError("list elements must have the same type")

    def compare(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
        return -1 if less(left[1], right[1]) else int(less(right[1], left[1]))

    return sorted(zip(items, keys, strict=True), key=cmp_to_key(compare))


def _first(items: list[Any]) -> Any:
    return Optional(items[0]) if items else NONE


def _last(items: list[Any]) -> Any:
    return Optional(items[-1]) if items else NONE


def _overloads() -> list[Overload]:
    found: list[Overload] = []
    for name in _COMPARABLE:
        found.append(
            overload("isSorted", f"list_{name}_is_sorted_bool", f"list({name}).() -> bool", is_sorted)
        )
        found.append(overload("max", f"list_{name}_max_{name}", f"list({name}).() -> {name}", greatest))
        found.append(overload("min", f"list_{name}_min_{name}", f"list({name}).() -> {name}", least))
        found.append(overload("sort", f"list_{name}_sort", f"list({name}).() -> list({name})", sort))
        found.append(
            overload(
                "@sortByAssociatedKeys",
                f"list_{name}_sortByAssociatedKeys",
                f"list(T).(list({name})) -> list(T)",
                sort_by_keys,
            )
        )
    sums: dict[str, Callable[[list[Any]], Any]] = {
        "int": _sum_int,
        "uint": _sum_uint,
        "double": _sum_double,
        "duration": _sum_duration,
    }
    for name, impl in sums.items():
        found.append(overload("sum", f"list_{name}_sum_{name}", f"list({name}).() -> {name}", impl))
    return found


OVERLOADS: Final[list[Overload]] = [
    *_overloads(),
    overload("indexOf", "list_a_index_of_int", "list(A).(A) -> int", index_of),
    overload("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", last_index_of),
    overload("slice", "list_slice", "list(T).(int, int) -> list(T)", slice_of),
    overload("flatten", "list_flatten", "list(list(T)).() -> list(T)", flatten),
    overload("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", flatten),
    overload("lists.range", "lists_range", "(int) -> list(int)", number_range),
    overload("reverse", "list_reverse", "list(T).() -> list(T)", reverse),
    overload("distinct", "list_distinct", "list(T).() -> list(T)", distinct),
    overload("first", "list_first", "list(T).() -> optional(T)", _first),
    overload("last", "list_last", "list(T).() -> optional(T)", _last),
]
