"""Macros: calls that the parser rewrites into comprehensions and presence tests.

A macro is identified by its name, whether it has a receiver, and its number of arguments; other calls with
that name are ordinary calls. The expansions are those of the CEL specification because checking and cost
depend on them; the compiler recognises them by `kind`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.cel.checking.types import BOOL, INT
from kubewright.cel.syntax.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
)

_OVERWRITES = "iteration variable overwrites accumulator variable"
_UNUSED = "#unused"


class MacroError(Exception):
    """Invalid arguments of a macro."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos
        self.message = message


def expand(pos: int, name: str, target: Expr | None, args: list[Expr], bindings: bool) -> Expr | None:
    """Return the expansion of a call, or `None` if it is not a macro."""
    if target is None:
        if name == "has" and len(args) == 1:
            return _has(pos, args[0])
        return None
    if name == "bind" and bindings and len(args) == 3 and isinstance(target, Ident) and target.name == "cel":
        variable = _variable(args[0], "cel.bind() variable names must be simple identifiers")
        return _bind(pos, variable, args[1], args[2])
    macro = _MACROS.get((name, len(args)))
    return macro(pos, target, args) if macro else None


def _has(pos: int, operand: Expr) -> Expr:
    if not isinstance(operand, Select):
        raise MacroError(operand.pos, "invalid argument to has() macro")
    return Select(pos, operand.operand, operand.field, test_only=True)


def _variable(expr: Expr, complaint: str) -> str:
    if not isinstance(expr, Ident):
        raise MacroError(expr.pos, complaint)
    if expr.name in (ACCUMULATOR, "__result__"):
        raise MacroError(expr.pos, _OVERWRITES)
    return expr.name


def _two_variables(first: Expr, second: Expr) -> tuple[str, str]:
    name1 = _variable(first, "argument must be a simple name")
    name2 = _variable(second, "argument must be a simple name")
    if name1 == name2:
        raise MacroError(second.pos, f"duplicate variable name: {name1}")
    return name1, name2


def _quantifier(kind: str, pos: int, target: Expr, names: tuple[str, str], predicate: Expr) -> Expr:
    def accu() -> Expr:
        return Ident(pos, ACCUMULATOR)

    result: Expr = accu()
    if kind == "all":
        init: Expr = Literal(pos, True, BOOL)
        condition: Expr = Call(pos, "@not_strictly_false", None, [accu()])
        step: Expr = Call(pos, "_&&_", None, [accu(), predicate])
    elif kind == "exists":
        init = Literal(pos, False, BOOL)
        condition = Call(pos, "@not_strictly_false", None, [Call(pos, "!_", None, [accu()])])
        step = Call(pos, "_||_", None, [accu(), predicate])
    else:
        init = Literal(pos, 0, INT)
        condition = Literal(pos, True, BOOL)
        one_more = Call(pos, "_+_", None, [accu(), Literal(pos, 1, INT)])
        step = Call(pos, "_?_:_", None, [predicate, one_more, accu()])
        result = Call(pos, "_==_", None, [accu(), Literal(pos, 1, INT)])
    return Comprehension(pos, kind, target, *names, ACCUMULATOR, init, condition, step, result)


def _quantifier1(kind: str) -> Callable[[int, Expr, list[Expr]], Expr]:
    def build(pos: int, target: Expr, args: list[Expr]) -> Expr:
        return _quantifier(
            kind, pos, target, (_variable(args[0], "argument must be a simple name"), ""), args[1]
        )

    return build


def _quantifier2(kind: str) -> Callable[[int, Expr, list[Expr]], Expr]:
    def build(pos: int, target: Expr, args: list[Expr]) -> Expr:
        return _quantifier(kind, pos, target, _two_variables(args[0], args[1]), args[2])

    return build


def _gather(
    kind: str,
    pos: int,
    target: Expr,
    names: tuple[str, str],
    init: Expr,
    step: Expr,
    condition: Expr | None,
) -> Expr:
    if condition is not None:
        step = Call(pos, "_?_:_", None, [condition, step, Ident(pos, ACCUMULATOR)])
        kind += "_if"
    always = Literal(pos, True, BOOL)
    return Comprehension(pos, kind, target, *names, ACCUMULATOR, init, always, step, Ident(pos, ACCUMULATOR))


def _append(pos: int, item: Expr) -> Expr:
    return Call(pos, "_+_", None, [Ident(pos, ACCUMULATOR), ListExpr(pos, [item])])


def _map(pos: int, target: Expr, args: list[Expr]) -> Expr:
    name = _variable(args[0], "argument is not an identifier")
    condition = args[1] if len(args) == 3 else None
    return _gather("map", pos, target, (name, ""), ListExpr(pos, []), _append(pos, args[-1]), condition)


def _filter(pos: int, target: Expr, args: list[Expr]) -> Expr:
    name = _variable(args[0], "argument is not an identifier")
    item = Ident(args[0].pos, name)
    return _gather("map", pos, target, (name, ""), ListExpr(pos, []), _append(pos, item), args[1])


def _transform_list(pos: int, target: Expr, args: list[Expr]) -> Expr:
    names = _two_variables(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    return _gather("map", pos, target, names, ListExpr(pos, []), _append(pos, args[-1]), condition)


def _transform_map(pos: int, target: Expr, args: list[Expr]) -> Expr:
    names = _two_variables(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    inserted = [Ident(pos, ACCUMULATOR), Ident(pos, names[0]), args[-1]]
    step = Call(pos, "cel.@mapInsert", None, inserted)
    return _gather("insert", pos, target, names, MapExpr(pos, []), step, condition)


def _transform_map_entry(pos: int, target: Expr, args: list[Expr]) -> Expr:
    names = _two_variables(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    step = Call(pos, "cel.@mapInsert", None, [Ident(pos, ACCUMULATOR), args[-1]])
    return _gather("insert_entry", pos, target, names, MapExpr(pos, []), step, condition)


def _bind(pos: int, name: str, value: Expr, body: Expr) -> Expr:
    never = Literal(pos, False, BOOL)
    return Comprehension(
        pos, "bind", ListExpr(pos, []), _UNUSED, "", name, value, never, Ident(pos, name), body
    )


def _opt_map(pos: int, target: Expr, args: list[Expr]) -> Expr:
    name = _variable(args[0], "optMap() variable name must be a simple identifier")
    body = _bind(pos, name, Call(pos, "value", target, []), args[1])
    present = Call(pos, "optional.of", None, [body])
    return _if_present(pos, target, present)


def _opt_flat_map(pos: int, target: Expr, args: list[Expr]) -> Expr:
    name = _variable(args[0], "optFlatMap() variable name must be a simple identifier")
    return _if_present(pos, target, _bind(pos, name, Call(pos, "value", target, []), args[1]))


def _if_present(pos: int, target: Expr, present: Expr) -> Expr:
    absent = Call(pos, "optional.none", None, [])
    return Call(pos, "_?_:_", None, [Call(pos, "hasValue", target, []), present, absent], kind="optMap")


def _sort_by(pos: int, target: Expr, args: list[Expr]) -> Expr:
    name = _variable(args[0], "argument is not an identifier")
    shared = _SORT_INPUT
    keys = _gather("map", pos, Ident(pos, shared), (name, ""), ListExpr(pos, []), _append(pos, args[1]), None)
    body = Call(pos, "@sortByAssociatedKeys", Ident(pos, shared), [keys])
    return _bind(pos, shared, target, body)


_SORT_INPUT: Final = "@__sortBy_input__"

_MACROS: Final[dict[tuple[str, int], Callable[[int, Expr, list[Expr]], Expr]]] = {
    ("all", 2): _quantifier1("all"),
    ("exists", 2): _quantifier1("exists"),
    ("exists_one", 2): _quantifier1("exists_one"),
    ("all", 3): _quantifier2("all"),
    ("exists", 3): _quantifier2("exists"),
    ("existsOne", 3): _quantifier2("exists_one"),
    ("exists_one", 3): _quantifier2("exists_one"),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
    ("sortBy", 2): _sort_by,
}
