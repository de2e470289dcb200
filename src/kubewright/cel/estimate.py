"""The static cost of an expression: bounds from the sizes its types declare, before any data is seen.

The walk carries, for every node, what is known about its size: computed from the expression (a literal, a
concatenation) or declared by a type (a field reached from a variable keeps its `declared` type, which has the
bounds of the schema). Sizes of elements of computed lists and maps are carried as `entries`. The numbers are
those of Kubernetes, since they decide which rules a CRD may have; unknown sizes count as 2^64-1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final, NamedTuple

from kubewright.cel import charges
from kubewright.cel.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from kubewright.cel.functions import Overload
from kubewright.cel.limits import MAX_UINT64
from kubewright.cel.types import SCALARS, Kind, Type, is_optional

_FORMAT_REGEX: Final = 128
_MAX_FORMAT: Final = 64


class CostRange(NamedTuple):
    """The least and the most something costs, or measures."""

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
_NOTHING: Final = CostRange(MAX_UINT64, 0)


class Entries(NamedTuple):
    """Sizes of the keys and values of a computed list or map."""

    is_list: bool
    key: CostRange
    value: CostRange

    def union(self, other: Entries) -> Entries:
        """Entries that cover both."""
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class Estimate(NamedTuple):
    """The cost of a call and the size of its result."""

    cost: CostRange
    size: CostRange | None = None


class _Local(NamedTuple):
    declared: Type | None
    size: CostRange | None
    entries: Entries | None


class Node(NamedTuple):
    """An argument as the cost of a call sees it."""

    expr: Expr
    size: CostRange | None
    declared: Type | None

    @property
    def known(self) -> CostRange:
        """The size, or anything."""
        return self.size if self.size is not None else UNKNOWN

    @property
    def element_size(self) -> CostRange | None:
        """The size of an element if this is a list; `None` if it is none."""
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


def _type_size(item: Type) -> CostRange | None:
    if item.kind in SCALARS:
        return ONE
    return _type_size(item.params[0]) if is_optional(item) else None


class Estimator:
    """Estimates one checked expression."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = variables
        self._locals: dict[str, list[_Local]] = {}
        self._costs: dict[int, CostRange] = {}
        self._sizes: dict[int, CostRange] = {}
        self._entries: dict[int, Entries] = {}
        self._declared: dict[int, Type | None] = {}

    def cost(self, expr: Expr) -> CostRange:
        """The cost of a node with all below it."""
        known = self._costs.get(id(expr))
        if known is None:
            known = self._costs[id(expr)] = self._cost(expr)
        return known

    def _cost(self, expr: Expr) -> CostRange:
        if isinstance(expr, Literal):
            return ZERO
        if isinstance(expr, Ident):
            local = self._local(expr.name)
            self._declared[id(expr)] = local.declared if local else self._global(expr.name)
            return ONE
        if isinstance(expr, Select):
            return self._select(expr)
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, ListExpr):
            return self._list(expr)
        if isinstance(expr, MapExpr):
            return self._map(expr)
        if isinstance(expr, StructExpr):
            total = fixed(charges.STRUCT_COST)
            for entry in expr.entries:
                total = total.plus(self.cost(entry.value))
            return total
        assert isinstance(expr, Comprehension)
        return self._bind(expr) if expr.is_bind else self._loop(expr)

    def _global(self, name: str) -> Type | None:
        """The declared type of a variable.

        Kubernetes measures whatever is not a local variable, even the name of a type, by the root of the
        schema, which is the type of `self`.
        """
        found = self._variables.get(name)
        return self._variables.get("self") if found is None or is_optional(found) else found

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _declaration(self, expr: Expr) -> Type | None:
        if isinstance(expr, Ident):
            local = self._local(expr.name)
            if local is not None:
                return local.declared
        return self._declared.get(id(expr))

    def size(self, expr: Expr) -> CostRange | None:
        """What is known of the size of a node's value."""
        known = self._sizes.get(id(expr))
        if known is not None:
            return known
        if isinstance(expr, Literal):
            return fixed(len(expr.value)) if isinstance(expr.value, str | bytes) else ONE
        if isinstance(expr, ListExpr):
            return fixed(len(expr.elements))
        if isinstance(expr, MapExpr):
            return fixed(len(expr.entries))
        found = declared_size(self._declaration(expr))
        if found is not None:
            self._sizes[id(expr)] = found
            return found
        found = _type_size(expr.type)
        if found is None and isinstance(expr, Ident):
            local = self._local(expr.name)
            found = local.size if local else None
        return found

    def _known(self, expr: Expr) -> CostRange:
        return self.size(expr) or UNKNOWN

    def entries(self, expr: Expr) -> Entries | None:
        """What is known of the elements of a computed list or map."""
        known = self._entries.get(id(expr))
        if known is None and isinstance(expr, Ident):
            local = self._local(expr.name)
            return local.entries if local else None
        return known

    def _select(self, expr: Select) -> CostRange:
        if expr.qualified is not None:
            cost = self.cost(expr.qualified)
            self._declared[id(expr)] = self._declared.get(id(expr.qualified))
            return cost
        cost = self.cost(expr.operand)
        if expr.test_only:
            return cost
        if expr.operand.type.kind in (Kind.MAP, Kind.OBJECT):
            cost = cost.plus(ONE)
        declared = self._declaration(expr.operand)
        if declared is not None and declared.kind is Kind.OBJECT:
            field = declared.field(expr.field)
            self._declared[id(expr)] = field.type if field else None
        return cost

    def _list(self, expr: ListExpr) -> CostRange:
        total = fixed(charges.LIST_COST)
        item = _NOTHING if expr.elements else ZERO
        for element in expr.elements:
            total = total.plus(self.cost(element))
            item = item.union(self._known(element))
        self._entries[id(expr)] = Entries(True, ONE, item)
        return total

    def _map(self, expr: MapExpr) -> CostRange:
        total = fixed(charges.MAP_COST)
        keys = values = _NOTHING if expr.entries else ZERO
        for entry in expr.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._known(entry.key))
            values = values.union(self._known(entry.value))
        self._entries[id(expr)] = Entries(False, keys, values)
        return total

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _pop(self, name: str) -> None:
        self._locals[name].pop()

    def _push_value(self, name: str, expr: Expr) -> None:
        self._push(name, _Local(self._declaration(expr), self.size(expr), self.entries(expr)))

    def _push_iteration(self, expr: Comprehension) -> None:
        source = expr.iter_range
        entries = self.entries(source)
        declared = self._declaration(source)
        is_list = entries.is_list if entries else source.type.kind is Kind.LIST
        params = declared.params if declared is not None else ()
        value = params[-1] if params and declared and declared.kind in (Kind.LIST, Kind.MAP) else None
        key = params[0] if params and declared and declared.kind is Kind.MAP else None
        if expr.iter_var2:
            self._push(expr.iter_var, _Local(key, entries.key if entries else None, None))
            self._push(expr.iter_var2, _Local(value, entries.value if entries else None, None))
        elif is_list:
            self._push(expr.iter_var, _Local(value, entries.value if entries else None, None))
        else:
            self._push(expr.iter_var, _Local(key, entries.key if entries else None, None))

    def _loop(self, expr: Comprehension) -> CostRange:
        total = self.cost(expr.iter_range).plus(self.cost(expr.accu_init))
        self._push_value(expr.accu_var, expr.accu_init)
        self._push_iteration(expr)
        each = self.cost(expr.condition).plus(self.cost(expr.step))
        self._pop(expr.iter_var)
        if expr.iter_var2:
            self._pop(expr.iter_var2)
        total = total.plus(self.cost(expr.result))
        self._pop(expr.accu_var)
        count = self._known(expr.iter_range)
        if isinstance(expr.accu_init, Literal):
            size = self.size(expr.accu_init)
            if size is not None:
                self._sizes[id(expr)] = size
        else:
            self._sizes[id(expr)] = count
            entries = self.entries(expr.step)
            if entries is not None:
                self._entries[id(expr)] = entries
        return total.plus(count.times(each))

    def _bind(self, expr: Comprehension) -> CostRange:
        total = self.cost(expr.iter_range).plus(self.cost(expr.accu_init))
        self._push_value(expr.accu_var, expr.accu_init)
        total = total.plus(self.cost(expr.result))
        self._copy(expr, expr.result)
        self._pop(expr.accu_var)
        return total

    def _copy(self, target: Expr, source: Expr) -> None:
        size, entries = self.size(source), self.entries(source)
        if size is not None:
            self._sizes[id(target)] = size
        if entries is not None:
            self._entries[id(target)] = entries

    def _node(self, expr: Expr) -> Node:
        return Node(expr, self.size(expr), self._declaration(expr))

    def _call(self, expr: Call) -> CostRange:
        if expr.function == "dyn" and expr.target is None:
            cost = self.cost(expr.args[0]).plus(ONE)
            self._copy(expr, expr.args[0])
            return cost
        costs = [self.cost(arg) for arg in expr.args]
        nodes = [self._node(arg) for arg in expr.args]
        total = ZERO
        target: Node | None = None
        if expr.target is not None:
            total = self.cost(expr.target)
            target = self._node(expr.target)
        combined = _NOTHING
        size: CostRange | None = None
        for overload in expr.overloads:
            estimate = self._overload(expr, overload, target, nodes, costs)
            combined = combined.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload.id in ("index_list", "index_map"):
                size = self._index(expr)
            if size is None:
                size = self.size(expr)
        if size is not None:
            self._sizes[id(expr)] = size
        return total.plus(combined)

    def _index(self, expr: Call) -> CostRange | None:
        declared = self._declaration(expr.args[0])
        if declared is not None and declared.kind in (Kind.LIST, Kind.MAP):
            self._declared[id(expr)] = declared.params[-1]
        entries = self.entries(expr.args[0])
        return entries.value if entries else None

    def _overload(
        self, expr: Call, overload: Overload, target: Node | None, args: list[Node], costs: list[CostRange]
    ) -> Estimate:
        if overload.id in ("logical_and", "logical_or"):
            return Estimate(CostRange(costs[0].min, costs[0].plus(costs[1]).max))
        if overload.id == "conditional":
            return self._conditional(expr, args, costs)
        total = ZERO
        for cost in costs:
            total = total.plus(cost)
        found = estimate_call(expr.function, overload.id, target, args)
        if overload.id in ("add_string", "add_bytes", "add_list"):
            left, right = (self.entries(arg) for arg in expr.args)
            if left is not None and right is not None:
                self._entries[id(expr)] = left.union(right)
        return Estimate(found.cost.plus(total), found.size)

    def _conditional(self, expr: Call, args: list[Node], costs: list[CostRange]) -> Estimate:
        left, right = self.entries(expr.args[1]), self.entries(expr.args[2])
        if left is not None and right is not None:
            self._entries[id(expr)] = left.union(right)
        cost = costs[0].plus(costs[1].union(costs[2]))
        return Estimate(cost, args[1].known.union(args[2].known))


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


def _matching(function: str, overload_id: str, target: Node | None, args: list[Node]) -> Estimate:
    text, pattern = (target, args[0]) if target is not None else (args[0], args[1])
    return Estimate(_pattern(text.known, pattern.known))


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
    **dict.fromkeys(("matches", "matches_string"), _matching),
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
