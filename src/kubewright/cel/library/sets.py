"""Set operations on lists: containment, equivalence, intersection."""

from __future__ import annotations

from typing import Any, Final

from kubewright.cel.functions import Overload, overload
from kubewright.cel.values import contains, hashable_set


def contains_all(items: list[Any], wanted: list[Any]) -> bool:
    """`sets.contains(items, wanted)`."""
    if hashable_set([*items, *wanted]) is not None:
        return set(wanted) <= set(items)
    return all(contains(items, item) for item in wanted)


def equivalent(left: list[Any], right: list[Any]) -> bool:
    """`sets.equivalent(left, right)`."""
    return contains_all(left, right) and contains_all(right, left)


def intersects(left: list[Any], right: list[Any]) -> bool:
    """`sets.intersects(left, right)`."""
    if hashable_set([*left, *right]) is not None:
        return not set(left).isdisjoint(right)
    return any(contains(right, item) for item in left)


OVERLOADS: Final[list[Overload]] = [
    overload("sets.contains", "list_sets_contains_list", "(list(T), list(T)) -> bool", contains_all),
    overload("sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) -> bool", equivalent),
    overload("sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) -> bool", intersects),
]
