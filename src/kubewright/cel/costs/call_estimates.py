"""Static cost of one call, from the known sizes of its arguments.

Rules are keyed by overload id, else by function name; a call without a rule costs one. A rule also bounds the
size of the result, since that is an argument of the next call. Unknown sizes count as 2^64-1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Final, NamedTuple

from kubewright.cel.checking.types import SCALARS, Kind, Type, is_optional
from kubewright.cel.costs import charges
from kubewright.cel.costs.limits import MAX_UINT64
from kubewright.cel.syntax.ast import Expr, Literal

_FORMAT_REGEX: Final = 128
_MAX_FORMAT: Final = 64


class CostRange(NamedTuple):
    """Minimum and maximum of a cost or size."""

    min: int
    max: int

    def plus(self, other: CostRange) -> CostRange:
        """The sum."""
        return CostRange(min(self.min + other.min, MAX_UINT64), min(self.max + other.max, MAX_UINT64))

    def times(self, other: CostRange) -> CostRange:
        """The product."""
        return CostRange(min(self.min * other.min, MAX_UINT64), min(self.max * other.max, MAX_UINT64))

    def scaled(self, factor: float) -> CostRange:
        """Times a factor, rounded up."""
        return CostRange(_scaled(self.min, factor), _scaled(self.max, factor))

    def union(self, other: CostRange) -> CostRange:
        """The range that covers both."""
        return CostRange(min(self.min, other.min), max(self.max, other.max))


def _scaled(size: int, factor: float) -> int:
    product = float(size) * factor
    return MAX_UINT64 if product >= 2.0**64 else ceil(product)


def fixed(size: int) -> CostRange:
    """A range of one value."""
    return CostRange(size, size)


UNKNOWN: Final = CostRange(0, MAX_UINT64)
ZERO: Final = fixed(0)
ONE: Final = fixed(1)
NOTHING: Final = CostRange(MAX_UINT64, 0)


class Estimate(NamedTuple):
    """The cost of a call and the size of its result."""

    cost: CostRange
    size: CostRange | None = None


class Node(NamedTuple):
    """An argument with its size."""

    expr: Expr
    size: CostRange | None
    declared: Type | None

    @property
    def known(self) -> CostRange:
        """The size, or the unbounded range."""
        return self.size if self.size is not None else UNKNOWN

    @property
    def element_size(self) -> CostRange | None:
        """The size of an element if this is a list, otherwise `None`."""
        if not self.expr.type.params or self.expr.type.kind not in (Kind.LIST, Kind.MAP):
            return None
        declared = self.declared.params[0] if self.declared is not None and self.declared.params else None
        found = declared_size(declared)
        return found if found is not None else UNKNOWN


def declared_size(item: Type | None) -> CostRange | None:
    """The size a declared type allows."""
    if item is None:
        return None
    if item.max_size is not None:
        return CostRange(0, item.max_size)
    if item.kind in SCALARS or item.kind is Kind.OBJECT:
        return ZERO
    return None


def type_size(item: Type) -> CostRange | None:
    """The size of a value of fixed size."""
    if item.kind in SCALARS:
        return ONE
    return type_size(item.params[0]) if is_optional(item) else None


def _literal_int(node: Node, default: int) -> int:
    value: Any = node.expr.value if isinstance(node.expr, Literal) else None
    return max(value, 0) if type(value) is int else default


def _pattern(text: CostRange, pattern: CostRange) -> CostRange:
    return text.plus(ONE).scaled(charges.STRING_FACTOR).times(pattern.scaled(charges.REGEX_FACTOR))


def _listing(factor: float, size: CostRange) -> Estimate:
    return Estimate(size.scaled(factor).plus(ONE).plus(fixed(charges.LIST_COST)), size)


def _sorting(node: Node, kind: str) -> Estimate:
    factor = 2.1 if kind in ("string", "bytes") else 2.0
    return _listing(factor, node.known.times(node.known))


def _replacement(text: CostRange, old: CostRange, new: CostRange) -> CostRange:
    kept_max = kept_min = count_max = count_min = 0
    if old.min == 0:
        count_max, kept_max = min(text.max + 1, MAX_UINT64), text.max
    elif new.max <= old.min:
        kept_max = text.max
    else:
        count_max = ceil(float(text.max) / float(old.min))
    if old.max == 0:
        count_min, kept_min = min(text.min + 1, MAX_UINT64), text.min
    elif old.max <= new.min:
        kept_min = text.min
    else:
        count_min = ceil(float(text.min) / float(old.max))
    return CostRange(count_min, count_max).times(new).plus(CostRange(kept_min, kept_max))


def _join(target: Node, args: list[Node]) -> Estimate:
    count = target.known
    element = target.element_size
    size = count.times(element) if element is not None else ZERO
    if args:
        separators = CostRange(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(args[0].known.times(separators))
    return Estimate(size.scaled(charges.STRING_FACTOR), size)


def _walk(target: Node) -> Estimate:
    element = target.element_size
    if element is None:
        return Estimate(target.known.scaled(charges.STRING_FACTOR))
    each = ONE
    if target.expr.type.params[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(element.scaled(charges.STRING_FACTOR))
    return Estimate(target.known.times(each))


def _contains(function: str, overload_id: str, args: list[Node]) -> Estimate:
    size = CostRange(4, 16)
    cost = size.plus(size).scaled(charges.STRING_FACTOR)
    if function == "containsCIDR":
        cost = cost.plus(size.scaled(charges.STRING_FACTOR)).plus(ONE)
    if overload_id.endswith("_string"):
        cost = cost.plus(args[0].known.scaled(charges.STRING_FACTOR))
    return Estimate(cost)


def _selector(size: CostRange) -> CostRange:
    requirements = size.scaled(0.5).scaled(charges.SELECTOR_COST)
    return fixed(charges.LIST_COST).plus(size.scaled(charges.STRING_FACTOR)).plus(requirements)


def _comparison(args: list[Node]) -> Estimate:
    smallest = min(args[0].known.max, args[1].known.max)
    return Estimate(CostRange(1 if smallest > 0 else 0, smallest).scaled(charges.STRING_FACTOR))


def _equality(args: list[Node]) -> Estimate | None:
    left, right = args[0].expr.type, args[1].expr.type
    if left.kind is not Kind.OPAQUE or not left.same(right) or is_optional(left):
        return None
    if left.name == "kubernetes.NamedFormat":
        return Estimate(CostRange(1, _MAX_FORMAT).scaled(charges.STRING_FACTOR))
    if left.name == "kubernetes.URL":
        size = args[1].size
        return Estimate(CostRange(1, size.max if size else 1).scaled(charges.STRING_FACTOR))
    return Estimate(ONE)


_Rule = Callable[[str, str, "Node | None", list[Node]], Estimate]
_FACTOR: Final = charges.STRING_FACTOR


def _text_argument(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    if overload_id == "cidr_ip":
        return Estimate(ONE)
    size = args[0].known
    return Estimate(size.scaled(_FACTOR), size if function in ("url", "jsonpatch.escapeKey") else None)


def _text_target(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    assert target is not None
    return Estimate(target.known.scaled(_FACTOR), target.known)


_BY_FUNCTION: Final[dict[str, _Rule]] = {
    "check": lambda f, o, target, args: Estimate(fixed(charges.AUTHORIZATION_COST)),
    **dict.fromkeys(
        ("fieldSelector", "labelSelector"), lambda f, o, target, args: Estimate(_selector(args[0].known))
    ),
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"),
        lambda f, o, target, args: _walk(target) if target else Estimate(ONE),
    ),
    **dict.fromkeys(
        (
            *("url", "jsonpatch.escapeKey", "cidr", "isIP", "isCIDR", "ip"),
            *("quantity", "isQuantity", "semver", "isSemver"),
        ),
        _text_argument,
    ),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _text_target),
    "replace": lambda f, o, target, args: Estimate(
        target.known.scaled(2 * _FACTOR) if target else UNKNOWN,
        _replacement(target.known, args[0].known, args[1].known) if target else None,
    ),
    "split": lambda f, o, target, args: Estimate(
        target.known.scaled(2 * _FACTOR) if target else UNKNOWN,
        CostRange(0, _split_limit(args, target.known.max if target else MAX_UINT64)),
    ),
    "join": lambda f, o, target, args: _join(target, args) if target else Estimate(ONE),
    **dict.fromkeys(
        ("find", "findAll"),
        lambda f, o, target, args: Estimate(
            _pattern(target.known, args[0].known) if target else UNKNOWN,
            CostRange(0, target.known.max) if target else None,
        ),
    ),
    "ip.isCanonical": lambda f, o, target, args: Estimate(args[0].known.scaled(2 * _FACTOR)),
    **dict.fromkeys(("containsIP", "containsCIDR"), lambda f, o, target, args: _contains(f, o, args)),
    "validate": lambda f, o, target, args: Estimate(
        args[0].known.scaled(_FACTOR).scaled(_FORMAT_REGEX * charges.REGEX_FACTOR)
    ),
}


def _split_limit(args: list[Node], default: int) -> int:
    if len(args) > 1 and isinstance(args[1].expr, Literal) and type(args[1].expr.value) is int:
        value: int = args[1].expr.value
        return value if value >= 0 else MAX_UINT64 + 1 + value
    return default


def _sets(factor: int) -> _Rule:
    return lambda f, o, target, args: Estimate(args[0].known.times(args[1].known).scaled(factor).plus(ONE))


def _concatenation(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    size = args[0].known.plus(args[1].known)
    return Estimate(ONE if overload_id == "add_list" else size.scaled(_FACTOR), size)


def _slice(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    assert target is not None
    end = _literal_int(args[1], target.known.max)
    return _listing(1, fixed(max(end - _literal_int(args[0], 0), 0)))


def _flatten(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    assert target is not None
    return _listing(float(_literal_int(args[0], MAX_UINT64) if args else 1), target.known)


_BY_OVERLOAD: Final[dict[str, _Rule]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": lambda f, o, target, args: _listing(1, fixed(_literal_int(args[0], MAX_UINT64))),
    "list_reverse": lambda f, o, target, args: _listing(1, target.known if target else UNKNOWN),
    "list_distinct": lambda f, o, target, args: _sorting(target, "") if target else Estimate(UNKNOWN),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "string_format": lambda f, o, target, args: Estimate(target.known.scaled(_FACTOR) if target else UNKNOWN),
    "string_to_bytes": lambda f, o, target, args: Estimate(
        args[0].known.scaled(_FACTOR), CostRange(args[0].known.min, min(args[0].known.max * 4, MAX_UINT64))
    ),
    "bytes_to_string": lambda f, o, target, args: Estimate(
        args[0].known.scaled(_FACTOR), CostRange(args[0].known.min // 4, args[0].known.max)
    ),
    "strings_quote": lambda f, o, target, args: Estimate(
        args[0].known.scaled(_FACTOR),
        CostRange(args[0].known.min + 2, min(args[0].known.max * 2 + 2, MAX_UINT64)),
    ),
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string"),
        lambda f, o, target, args: Estimate(args[0].known.scaled(_FACTOR)),
    ),
    "in_list": lambda f, o, target, args: Estimate(args[1].known.scaled(1)),
    "matches_string": lambda f, o, target, args: Estimate(
        _pattern(target.known if target else UNKNOWN, args[0].known)
    ),
    "contains_string": lambda f, o, target, args: Estimate(
        (target.known if target else UNKNOWN).scaled(_FACTOR).times(args[0].known.scaled(_FACTOR))
    ),
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _concatenation),
    "equals": lambda f, o, target, args: _equality(args) or _comparison(args),
    "not_equals": lambda f, o, target, args: _comparison(args),
    **{
        f"{word}_{kind}": lambda f, o, target, args: _comparison(args)
        for word in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}


def estimate_call(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    """The cost of a call without its arguments, and the size of its result."""
    if function == "sort" and target is not None:
        return _sorting(target, overload_id.split("_")[1])
    if function == "@sortByAssociatedKeys":
        return _sorting(args[0], overload_id.split("_")[1])
    rule = _BY_OVERLOAD.get(overload_id) or _BY_FUNCTION.get(function)
    return rule(function, overload_id, target, args) if rule else Estimate(ONE)
