"""Code generation for comprehensions: a specialised loop per macro.

A loop charges the fixed cost of an iteration for every element. If the whole loop fits into the remaining
limit, it charges once at its end; otherwise it charges and checks in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kubewright.cel.checking.types import Kind
from kubewright.cel.compilation.code import Code, Run
from kubewright.cel.compilation.frame import Frame
from kubewright.cel.costs.charges import LIST_COST
from kubewright.cel.errors import CelError, CostExceeded
from kubewright.cel.library.jsonpatch import insert, insert_all
from kubewright.cel.syntax.ast import Call, Comprehension, Expr, ListExpr
from kubewright.cel.values import no_overload, type_of_value

if TYPE_CHECKING:
    from kubewright.cel.compilation.compiler import Compiler


def comprehension(compiler: Compiler, expr: Comprehension) -> Code:
    """Return the code of a comprehension."""
    if expr.is_bind:
        return _bind(compiler, expr)
    source, raw = compiler.raw(expr.iter_range)
    two = bool(expr.iter_var2)
    ranged = expr.iter_range.type.kind
    names = {expr.iter_var: raw and ranged is Kind.LIST and not two}
    if two:
        names[expr.iter_var2] = raw
    slots = compiler.enter(names)
    try:
        if expr.kind in ("all", "exists"):
            return _quantifier(compiler, expr, source, slots)
        if expr.kind == "exists_one":
            return _exists_one(compiler, expr, source, slots)
        return _gather(compiler, expr, source, slots)
    finally:
        compiler.leave()


def _bind(compiler: Compiler, expr: Comprehension) -> Code:
    value = compiler.code(expr.accu_init)
    (slot,) = compiler.enter({expr.accu_var: False})
    body = compiler.code(expr.result)
    compiler.leave()
    source, run = value.run, body.run

    def evaluate(frame: Frame) -> Any:
        frame[slot] = source(frame)
        return run(frame)

    return Code(evaluate, value.cost + body.cost)


def _elements(value: Any, two: bool) -> Iterable[Any]:
    if isinstance(value, list):
        return enumerate(value) if two else value
    if isinstance(value, dict):
        return value.items() if two else value
    kind = str(type_of_value(value)).capitalize()
    raise CelError(f"got 'types.{kind}', expected iterable type")


def _over(cost: int, frame: Frame) -> bool:
    """Return whether a loop of this fixed cost can exceed the limit."""
    return bool(frame[0] + cost > frame[1])


def _operand(step: Expr, position: int) -> Expr:
    assert isinstance(step, Call)
    return step.args[position]


def _quantifier(compiler: Compiler, expr: Comprehension, source: Code, slots: list[int]) -> Code:
    """`all` and `exists`: the first decisive element ends the loop; errors count only without one."""
    predicate_expr = _operand(expr.step, 1)
    predicate = compiler.code(predicate_expr)
    test, decisive = predicate.run, expr.kind == "exists"
    condition_cost = 3 if decisive else 2
    cost = condition_cost + 1 + predicate.cost
    two = len(slots) == 2
    slot, items_of = slots[0], source.run
    second = slots[-1]

    def run(frame: Frame) -> bool:
        items = items_of(frame)
        if type(items) is not list or two:
            items = list(_elements(items, two))
        count = len(items)
        careful = _over(cost * count, frame)
        error: CelError | None = None
        done = 0
        for item in items:
            done += 1
            if careful:
                frame[0] += cost
                if frame[0] > frame[1]:
                    raise CostExceeded
            if two:
                frame[slot], frame[second] = item
            else:
                frame[slot] = item
            try:
                value = test(frame)
            except CelError as failure:
                error = error or failure
                continue
            decided: bool = value is decisive
            if decided:
                if not careful:
                    frame[0] += cost * done
                if done < count:
                    frame[0] += condition_cost
                return decisive
            if value is not (not decisive):
                error = error or no_overload()
        if not careful:
            frame[0] += cost * done
        if error is not None:
            raise error
        return not decisive

    return Code(run, source.cost + 1)


def _exists_one(compiler: Compiler, expr: Comprehension, source: Code, slots: list[int]) -> Code:
    predicate = compiler.code(_operand(expr.step, 0))
    test, cost = predicate.run, predicate.cost
    two = len(slots) == 2
    slot, items_of = slots[0], source.run
    second = slots[-1]

    def run(frame: Frame) -> bool:
        found = 0
        for item in _elements(items_of(frame), two):
            frame[0] += cost
            if frame[0] > frame[1]:
                raise CostExceeded
            if two:
                frame[slot], frame[second] = item
            else:
                frame[slot] = item
            value = test(frame)
            if value is True:
                found += 1
                frame[0] += 2
            elif value is not False:
                raise no_overload()
        return found == 1

    return Code(run, source.cost + 2)


def _gather(compiler: Compiler, expr: Comprehension, source: Code, slots: list[int]) -> Code:
    """`map`, `filter` and the transforms: collect values, optionally under a condition."""
    step = expr.step
    condition: Code | None = None
    if expr.kind.endswith("_if"):
        condition = compiler.code(_operand(step, 0))
        step = _operand(step, 1)
    kind = expr.kind.removesuffix("_if")
    value, cost = _collected(compiler, step, kind)
    test: Run | None = condition.run if condition else None
    test_cost = condition.cost if condition else 0
    two = len(slots) == 2
    slot, items_of, make = slots[0], source.run, value.run
    second = slots[-1]

    def run(frame: Frame) -> Any:
        result: Any = [] if kind == "map" else {}
        for item in _elements(items_of(frame), two):
            if two:
                frame[slot], frame[second] = item
            else:
                frame[slot] = item
            frame[0] += test_cost
            if test is not None:
                chosen = test(frame)
                if chosen is not True:
                    if chosen is not False:
                        raise no_overload()
                    if frame[0] > frame[1]:
                        raise CostExceeded
                    continue
            frame[0] += cost
            if frame[0] > frame[1]:
                raise CostExceeded
            if kind == "map":
                result.append(make(frame))
            elif kind == "insert":
                insert(result, frame[slot], make(frame))
            else:
                entries = make(frame)
                if type(entries) is not dict:
                    raise no_overload()
                insert_all(result, entries)
        return result

    return Code(run, source.cost + 1)


def _collected(compiler: Compiler, step: Expr, kind: str) -> tuple[Code, int]:
    """The value an iteration adds, and the fixed cost of adding it."""
    item = _operand(step, -1)
    if kind == "map":
        assert isinstance(item, ListExpr)
        value = compiler.code(item.elements[0])
        return value, value.cost + 2 + (0 if value.constant else LIST_COST)
    value = compiler.code(item)
    return value, value.cost + (3 if kind == "insert" else 2)
