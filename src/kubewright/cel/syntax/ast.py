"""The expression tree: created by the parser, annotated by the checker, read by the compiler.

Every node has its offset in the text (`pos`) and, once checked, its `type`. Macros are already expanded:
`all`, `map` and others are `Comprehension` nodes with the name of the macro as `kind`, so that the compiler
can choose a specialised loop. Two parents may share a node (the target of `optMap`), so passes over the tree
track visited nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubewright.cel.checking.types import ERROR, Type

ACCUMULATOR = "@result"


class Expr:
    """A node."""

    __slots__ = ("pos", "type")

    def __init__(self, pos: int) -> None:
        self.pos = pos
        self.type: Type = ERROR


class Literal(Expr):
    """A constant; `declared` is its type."""

    __slots__ = ("declared", "value")

    def __init__(self, pos: int, value: Any, declared: Type) -> None:
        super().__init__(pos)
        self.value = value
        self.declared = declared


class Ident(Expr):
    """A variable, or after checking the name of a type (`type_name`)."""

    __slots__ = ("name", "type_name")

    def __init__(self, pos: int, name: str) -> None:
        super().__init__(pos)
        self.name = name
        self.type_name: Type | None = None


class Select(Expr):
    """`operand.field`, or `has(operand.field)` if `test_only`."""

    __slots__ = ("field", "operand", "qualified", "test_only")

    def __init__(self, pos: int, operand: Expr, field: str, test_only: bool = False) -> None:
        super().__init__(pos)
        self.operand = operand
        self.field = field
        self.test_only = test_only
        self.qualified: Ident | None = None
        """Set by the checker if the whole chain names one variable or type."""


class Call(Expr):
    """A function, method or operator. Checking fills in the overloads that may apply."""

    __slots__ = ("args", "function", "kind", "overloads", "target")

    def __init__(
        self, pos: int, function: str, target: Expr | None, args: list[Expr], kind: str = ""
    ) -> None:
        super().__init__(pos)
        self.function = function
        self.target = target
        self.args = args
        self.kind = kind
        self.overloads: list[Any] = []


class ListExpr(Expr):
    """`[a, ?b]`; `optionals` are the indexes written with a question mark."""

    __slots__ = ("elements", "optionals")

    def __init__(self, pos: int, elements: list[Expr], optionals: frozenset[int] = frozenset()) -> None:
        super().__init__(pos)
        self.elements = elements
        self.optionals = optionals


class Entry(NamedTuple):
    """One entry of a map or object literal; for objects `key` is the field name."""

    pos: int
    key: Any
    value: Expr
    optional: bool


class MapExpr(Expr):
    """`{key: value}`."""

    __slots__ = ("entries",)

    def __init__(self, pos: int, entries: list[Entry]) -> None:
        super().__init__(pos)
        self.entries = entries


class StructExpr(Expr):
    """`Name{field: value}`."""

    __slots__ = ("entries", "name")

    def __init__(self, pos: int, name: str, entries: list[Entry]) -> None:
        super().__init__(pos)
        self.name = name
        self.entries = entries


class Comprehension(Expr):
    """A fold over a list or map; `kind` is the name of the macro."""

    __slots__ = (
        "accu_init",
        "accu_var",
        "condition",
        "iter_range",
        "iter_var",
        "iter_var2",
        "kind",
        "result",
        "step",
    )

    def __init__(
        self,
        pos: int,
        kind: str,
        iter_range: Expr,
        iter_var: str,
        iter_var2: str,
        accu_var: str,
        accu_init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> None:
        super().__init__(pos)
        self.kind = kind
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result

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
