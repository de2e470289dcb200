"""Run-time cost of calls, from the sizes of arguments and result, as in Kubernetes.

`charge_for(function, overload)` returns a function of the argument tuple and the result, or `None` for calls
that cost one. Expensive calls are charged by `before`, a lower bound known from the arguments alone, so that
the budget stops them before the work is done.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from kubewright.cel.errors import CostExceeded
from kubewright.cel.library.named_formats import Format
from kubewright.cel.values import Opaque, size_of

Charge = Callable[[tuple[Any, ...], Any], int]

STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
LIST_COST: Final = 10
MAP_COST: Final = 30
STRUCT_COST: Final = 40
AUTHORIZATION_COST: Final = 350_000
_MAX_NODES: Final = 1_000_000
"""Nodes of a value that are visited to determine a cost; an expression of this cost is stopped anyway."""
SELECTOR_COST: Final = LIST_COST + STRUCT_COST


def strings(size: int) -> int:
    """The cost of walking this many characters."""
    return ceil(size * STRING_FACTOR)


def regex(text_size: int, pattern_size: int) -> int:
    """The cost of matching a text against a pattern."""
    return ceil((1.0 + text_size) * STRING_FACTOR) * ceil(pattern_size * REGEX_FACTOR)


def traversal(value: Any) -> int:
    """The cost of walking a value with everything inside; raise `CostExceeded` if it has too many nodes."""
    stack, cost, nodes = [value], 0, 0
    while stack:
        item = stack.pop()
        if type(item) is str:
            cost += int(len(item.encode("utf-8", "surrogatepass")) * STRING_FACTOR)
        elif type(item) is bytes:
            cost += int(len(item) * STRING_FACTOR)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        else:
            cost += 1
        nodes += 1
        if nodes > _MAX_NODES:
            raise CostExceeded
    return cost


def _first(args: tuple[Any, ...], _: Any) -> int:
    return strings(size_of(args[0]))


def _first_twice(args: tuple[Any, ...], _: Any) -> int:
    return ceil(size_of(args[0]) * 2 * STRING_FACTOR)


def _second(args: tuple[Any, ...], _: Any) -> int:
    return strings(size_of(args[1]))


def _both(args: tuple[Any, ...], _: Any) -> int:
    return strings(size_of(args[0]) + size_of(args[1]))


def _smaller(args: tuple[Any, ...], _: Any) -> int:
    return strings(min(size_of(args[0]), size_of(args[1])))


def _equality(args: tuple[Any, ...], result: Any) -> int:
    return 1 if isinstance(args[0], Opaque) else _smaller(args, result)


def _product(args: tuple[Any, ...], _: Any) -> int:
    return strings(size_of(args[0])) * strings(size_of(args[1]))


def _pattern(args: tuple[Any, ...], _: Any) -> int:
    return regex(size_of(args[0]), size_of(args[1]))


def _membership(args: tuple[Any, ...], _: Any) -> int:
    return size_of(args[1])


def _walk(args: tuple[Any, ...], _: Any) -> int:
    return traversal(args[0])


def _joined(args: tuple[Any, ...], result: Any) -> int:
    return ceil(size_of(result) * 2 * STRING_FACTOR)


def _selector(args: tuple[Any, ...], _: Any) -> int:
    size = size_of(args[1])
    return LIST_COST + strings(size) + ceil(ceil(size * 0.5) * SELECTOR_COST)


def _one(args: tuple[Any, ...], _: Any) -> int:
    return 1


def _check(args: tuple[Any, ...], _: Any) -> int:
    return AUTHORIZATION_COST


def _named_format(args: tuple[Any, ...], _: Any) -> int:
    value: Format = args[0]
    return regex(size_of(args[1]), value.regex_size)


def _contains_ip(args: tuple[Any, ...], _: Any) -> int:
    size = size_of(args[0])
    return strings(size + size) + (strings(size_of(args[1])) if type(args[1]) is str else 0)


def _contains_cidr(args: tuple[Any, ...], _: Any) -> int:
    return _contains_ip(args, None) + strings(size_of(args[0])) + 1


def _sets(factor: int) -> Charge:
    def charge(args: tuple[Any, ...], _: Any) -> int:
        return len(args[0]) * len(args[1]) * factor + 1

    return charge


def _output(args: tuple[Any, ...], result: Any) -> int:
    return size_of(result) + 1 + LIST_COST


def _flatten(args: tuple[Any, ...], _: Any) -> int:
    depth = args[1] if len(args) == 2 else 1
    return len(args[0]) * max(depth, 1) + 1 + LIST_COST


def _self_compare(position: int) -> Charge:
    def charge(args: tuple[Any, ...], _: Any) -> int:
        items = args[position]
        factor = 2.1 if items and type(items[0]) in (str, bytes) else 2.0
        return int(len(items) ** 2 * factor) + 1 + LIST_COST

    return charge


_BY_OVERLOAD: Final[dict[str, Charge]] = {
    "cidr_ip": _one,
    "list_slice": _output,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _output,
    "list_reverse": _output,
    "list_distinct": _self_compare(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "starts_with_string": _second,
    "ends_with_string": _second,
    "string_to_bytes": _first,
    "bytes_to_string": _first,
    "strings_quote": _first,
    "string_format": _first,
    "in_list": _membership,
    "add_string": _both,
    "add_bytes": _both,
    "matches_string": _pattern,
    "contains_string": _product,
    "equals": _equality,
    "not_equals": _smaller,
    **{
        f"{word}_{kind}": _smaller
        for word in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}
_BY_FUNCTION: Final[dict[str, Charge]] = {
    "check": _check,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    **dict.fromkeys(
        (
            "url",
            "lowerAscii",
            "upperAscii",
            "substring",
            "trim",
            "jsonpatch.escapeKey",
            "cidr",
            "isIP",
            "isCIDR",
        ),
        _first,
    ),
    **dict.fromkeys(("ip", "quantity", "isQuantity", "semver", "isSemver"), _first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_twice),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _pattern),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _named_format,
    "sort": _self_compare(0),
    "@sortByAssociatedKeys": _self_compare(1),
}
_AFTERWARDS: Final = frozenset({"join", "slice", "reverse"})
"""Functions whose cost depends on the result, which is not larger than the arguments or is bounded."""


def charge_for(function: str, overload_id: str) -> Charge | None:
    """Return the cost function of a call; `None` means cost 1."""
    return _BY_OVERLOAD.get(overload_id) or _BY_FUNCTION.get(function)


def before(function: str) -> bool:
    """Return whether the cost depends only on the arguments, so that it can be charged before the call."""
    return function not in _AFTERWARDS and function != "lists.range"
