"""Static cost estimation from the sizes that types declare.

The walk tracks the size of every node: computed from the expression (a literal, a concatenation) or declared
by a type (a field selected from a variable keeps its path in the schema, which has the bounds).
Sizes of elements of computed lists and maps are tracked as `entries`. The numbers are those of Kubernetes,
since they decide which rules a CRD is allowed to have; unknown sizes count as 2^64-1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubewright.cel.checking.types import Kind, Type, is_optional
from kubewright.cel.costs import charges
from kubewright.cel.costs.call_estimates import (
    NOTHING,
    ONE,
    UNKNOWN,
    ZERO,
    CostRange,
    Estimate,
    Node,
    declared_size,
    estimate_call,
    fixed,
    type_size,
)
from kubewright.cel.functions import Overload
from kubewright.cel.syntax.ast import (
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


class Entries(NamedTuple):
    """Sizes of the keys and values of a computed list or map."""

    is_list: bool
    key: CostRange
    value: CostRange

    def union(self, other: Entries) -> Entries:
        """Entries that cover both."""
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class _Path(NamedTuple):
    """Where a value is in the schema; `type` is `None` if the schema does not declare it."""

    type: Type | None


class _Local(NamedTuple):
    path: _Path | None
    size: CostRange | None
    entries: Entries | None


def _field(declared: Type, name: str) -> Type | None:
    field = declared.field(name) if declared.kind is Kind.OBJECT else None
    return field.type if field else None


def _element(declared: Type) -> Type | None:
    return declared.params[-1] if declared.params and declared.kind in (Kind.LIST, Kind.MAP) else None


def _key(declared: Type) -> Type | None:
    return declared.params[0] if declared.params and declared.kind is Kind.MAP else None


class Estimator:
    """Estimates one checked expression."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = variables
        self._locals: dict[str, list[_Local]] = {}
        self._costs: dict[int, CostRange] = {}
        self._sizes: dict[int, CostRange] = {}
        self._entries: dict[int, Entries] = {}
        self._paths: dict[int, _Path] = {}

    def cost(self, expr: Expr) -> CostRange:
        """Return the cost of a node including its subtree."""
        known = self._costs.get(id(expr))
        if known is None:
            known = self._costs[id(expr)] = self._cost(expr)
        return known

    def _cost(self, expr: Expr) -> CostRange:
        if isinstance(expr, Literal):
            return ZERO
        if isinstance(expr, Ident):
            if self._local(expr.name) is None:
                self._paths[id(expr)] = _Path(self._global(expr.name))
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
        """Return the declared type of a variable.

        Kubernetes uses the root of the schema, the type of `self`, for everything that is not a local
        variable, even for type names.
        """
        found = self._variables.get(name)
        return self._variables.get("self") if found is None or is_optional(found) else found

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, expr: Expr) -> _Path | None:
        if isinstance(expr, Ident):
            local = self._local(expr.name)
            if local is not None:
                return local.path
        return self._paths.get(id(expr))

    def _declaration(self, expr: Expr) -> Type | None:
        path = self._path(expr)
        return path.type if path else None

    def _below(self, expr: Expr, step: Callable[[Type], Type | None]) -> _Path:
        """Return the path of a field or an element of a value.

        Kubernetes drops the first name of a path and starts at the root of the schema. Below a value without
        a path, such as the result of `split`, the first name is that of the field or element: its bounds are
        those of the root.
        """
        path = self._path(expr)
        if path is None:
            return _Path(self._variables.get("self"))
        return _Path(step(path.type) if path.type is not None else None)

    def size(self, expr: Expr) -> CostRange | None:
        """Return the known size of a node's value."""
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
        found = type_size(expr.type)
        if found is None and isinstance(expr, Ident):
            local = self._local(expr.name)
            found = local.size if local else None
        return found

    def _known(self, expr: Expr) -> CostRange:
        return self.size(expr) or UNKNOWN

    def entries(self, expr: Expr) -> Entries | None:
        """Return the known sizes of the elements of a computed list or map."""
        known = self._entries.get(id(expr))
        if known is None and isinstance(expr, Ident):
            local = self._local(expr.name)
            return local.entries if local else None
        return known

    def _select(self, expr: Select) -> CostRange:
        if expr.qualified is not None:
            cost = self.cost(expr.qualified)
            path = self._path(expr.qualified)
            if path is not None:
                self._paths[id(expr)] = path
            return cost
        cost = self.cost(expr.operand)
        if expr.test_only:
            return cost
        if expr.operand.type.kind in (Kind.MAP, Kind.OBJECT):
            cost = cost.plus(ONE)
        self._paths[id(expr)] = self._below(expr.operand, lambda declared: _field(declared, expr.field))
        return cost

    def _list(self, expr: ListExpr) -> CostRange:
        total = fixed(charges.LIST_COST)
        item = NOTHING if expr.elements else ZERO
        for element in expr.elements:
            total = total.plus(self.cost(element))
            item = item.union(self._known(element))
        self._entries[id(expr)] = Entries(True, ONE, item)
        return total

    def _map(self, expr: MapExpr) -> CostRange:
        total = fixed(charges.MAP_COST)
        keys = values = NOTHING if expr.entries else ZERO
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
        self._push(name, _Local(self._path(expr), self.size(expr), self.entries(expr)))

    def _push_iteration(self, expr: Comprehension) -> None:
        source = expr.iter_range
        entries = self.entries(source)
        is_list = entries.is_list if entries else source.type.kind is Kind.LIST
        value = self._below(source, _element)
        key = self._below(source, _key)
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
        combined = NOTHING
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
        self._paths[id(expr)] = self._below(expr.args[0], _element)
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
