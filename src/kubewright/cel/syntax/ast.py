"""The expression tree: created by the parser, annotated by the checker, read by the compiler.

Every node has its offset in the text (`pos`) and, once checked, its `type`. Macros are already expanded:
`all`, `map` and others are `Comprehension` nodes with the name of the macro as `kind`, so that the compiler
can choose a specialised loop. Two parents may share a node (the target of `optMap`), so passes over the tree
track visited nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as annotation
from typing import Any, NamedTuple

from kubewright.cel.checking.types import ERROR, Type

ACCUMULATOR = "@result"


@dataclass(slots=True, eq=False)
class Expr:
    """A node."""

    pos: int
    type: Type = annotation(default=ERROR, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expr):
    """A constant; `declared` is its type."""

    value: Any
    declared: Type


@dataclass(slots=True, eq=False)
class Ident(Expr):
    """A variable, or after checking the name of a type (`type_name`)."""

    name: str
    type_name: Type | None = annotation(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Expr):
    """`operand.field`, or `has(operand.field)` if `test_only`."""

    operand: Expr
    field: str
    test_only: bool = False
    qualified: Ident | None = annotation(default=None, init=False)
    """Set by the checker if the whole chain names one variable or type."""


@dataclass(slots=True, eq=False)
class Call(Expr):
    """A function, method or operator. Checking fills in the overloads that may apply."""

    function: str
    target: Expr | None
    args: list[Expr]
    kind: str = ""
    overloads: list[Any] = annotation(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    """`[a, ?b]`; `optionals` are the indexes written with a question mark."""

    elements: list[Expr]
    optionals: frozenset[int] = frozenset()


class Entry(NamedTuple):
    """One entry of a map or object literal; for objects `key` is the field name."""

    pos: int
    key: Any
    value: Expr
    optional: bool


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    """`{key: value}`."""

    entries: list[Entry]


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """`Name{field: value}`."""

    name: str
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Comprehension(Expr):
    """A fold over a list or map; `kind` is the name of the macro."""

    kind: str
    iter_range: Expr
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Expr
    condition: Expr
    step: Expr
    result: Expr

    @property
    def is_bind(self) -> bool:
        """Whether this only binds a variable (`cel.bind`, `optMap`)."""
        return self.kind == "bind"


def children(expr: Expr) -> list[Expr]:
    """Return the direct children of a node."""
    if isinstance(expr, Select):
        return [expr.operand]
    if isinstance(expr, Call):
        return expr.args if expr.target is None else [expr.target, *expr.args]
    if isinstance(expr, ListExpr):
        return expr.elements
    if isinstance(expr, MapExpr):
        return [part for entry in expr.entries for part in (entry.key, entry.value)]
    if isinstance(expr, StructExpr):
        return [entry.value for entry in expr.entries]
    if isinstance(expr, Comprehension):
        return [expr.iter_range, expr.accu_init, expr.condition, expr.step, expr.result]
    return []
