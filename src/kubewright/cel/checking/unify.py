"""Type assignability and unification of type parameters.

`Substitution.assign(a, b)` checks a pair and binds free parameters; a failed attempt changes nothing. The
rules are those of the CEL checker: dyn is assignable to everything, null to objects, opaque types, timestamps
and durations; lists and maps are compared by their parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubewright.cel.checking.types import DYN, Kind, Type

_NULLABLE: Final = frozenset({Kind.OPAQUE, Kind.OBJECT, Kind.DURATION, Kind.TIMESTAMP})
_COMPOSITE: Final = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP, Kind.TYPE})


class Substitution:
    """Bindings of type parameters found while checking one expression."""

    __slots__ = ("_bound", "_fresh", "_trail")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """Return a new free type parameter."""
        self._fresh += 1
        return Type(Kind.PARAM, f"_var{self._fresh - 1}")

    def instantiate(self, names: frozenset[str], items: Sequence[Type]) -> list[Type]:
        """Return the types with their named parameters replaced by new ones."""
        renamed = {name: self.fresh() for name in sorted(names)}
        return [_rename(item, renamed) for item in items]

    def assign(self, left: Type, right: Type) -> bool:
        """Whether `left` is assignable to `right`."""
        return self.assign_all((left,), (right,))

    def assign_all(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        """Return whether each of `left` is assignable to its counterpart; bind only if all are."""
        mark = len(self._trail)
        if len(left) == len(right) and all(map(self._assign, left, right)):
            return True
        while len(self._trail) > mark:
            name, previous = self._trail.pop()
            if previous is None:
                del self._bound[name]
            else:
                self._bound[name] = previous
        return False

    def resolve(self, item: Type, *, free_as_dyn: bool = False) -> Type:
        """The type with all bound parameters filled in."""
        while item.kind is Kind.PARAM:
            bound = self._bound.get(item.name)
            if bound is None:
                return DYN if free_as_dyn else item
            item = bound
        if item.kind not in _COMPOSITE or not item.params:
            return item
        params = tuple(self.resolve(param, free_as_dyn=free_as_dyn) for param in item.params)
        if all(new is old for new, old in zip(params, item.params, strict=True)):
            return item
        return Type(
            item.kind,
            item.name,
            params,
            max_size=item.max_size,
            min_json=item.min_json,
            list_type=item.list_type,
            list_keys=item.list_keys,
        )

    def _bind(self, name: str, value: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = value

    def _assign(self, left: Type, right: Type) -> bool:
        if right.kind is Kind.PARAM:
            valid, known = self._substitutes(left, right)
            if valid:
                return True
            if known:
                return False
        if left.kind is Kind.PARAM:
            return self._substitutes(right, left)[0]
        if left.kind <= Kind.DYN or right.kind <= Kind.DYN:
            return True
        if left.kind is Kind.NULL:
            return right.kind is Kind.NULL or right.kind in _NULLABLE
        if right.kind is Kind.NULL:
            return left.kind in _NULLABLE
        if left.kind is not right.kind:
            return False
        if left.kind is Kind.TYPE:
            return True
        if left.kind in _COMPOSITE:
            return left.name == right.name and all(map(self._assign, left.params, right.params))
        return left.same(right)

    def _substitutes(self, item: Type, param: Type) -> tuple[bool, bool]:
        if item.kind is Kind.PARAM and item.name == param.name:
            return True, True
        bound = self._bound.get(param.name)
        if bound is not None:
            if item.same(bound):
                return True, True
            if self._assign(item, bound):
                general = most_general(item, bound)
                if self._free_of(param, general):
                    self._bind(param.name, general)
                return True, True
            return False, True
        if self._free_of(param, item):
            self._bind(param.name, item)
            return True, False
        return False, False

    def _free_of(self, param: Type, within: Type) -> bool:
        if within.kind is Kind.PARAM:
            if within.name == param.name:
                return False
            bound = self._bound.get(within.name)
            return bound is None or self._free_of(param, bound)
        return all(self._free_of(param, inner) for inner in within.params)


def most_general(left: Type, right: Type) -> Type:
    """Return the less specific of two compatible types."""
    return left if _less_specific(left, right) else right


def _less_specific(left: Type, right: Type) -> bool:
    if left.kind is Kind.DYN or left.kind is Kind.PARAM:
        return True
    if right.kind is Kind.DYN or right.kind is Kind.PARAM:
        return False
    if left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _COMPOSITE:
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(map(_less_specific, left.params, right.params))
        )
    return left.same(right)


def _rename(item: Type, renamed: dict[str, Type]) -> Type:
    if item.kind is Kind.PARAM:
        return renamed.get(item.name, item)
    if not item.params:
        return item
    return Type(item.kind, item.name, tuple(_rename(param, renamed) for param in item.params))
