"""Code generation for comparisons and string predicates, specialised by checked types.

Numbers and strings of known type are compared by Python's operators; everything else by `values.equal`, after
its size is charged. A null where the type declares a value is an evaluation error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, Final

from kubewright.cel.checking.types import SCALARS, Kind
from kubewright.cel.compilation.code import Code, Run, value_of
from kubewright.cel.compilation.frame import Frame, charge, work
from kubewright.cel.costs import charges
from kubewright.cel.errors import CostExceeded
from kubewright.cel.library.regex import compiled as compiled_pattern
from kubewright.cel.syntax.ast import Call, Expr
from kubewright.cel.values import equal, no_overload

Binary = Callable[[Any, Any], bool]

_TEXT: Final = frozenset({Kind.STRING, Kind.BYTES})
ORDER: Final[dict[str, Binary]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_STRING_COST: Final = [charges.strings(size) for size in range(1024)]


def string_cost(size: int) -> int:
    """`charges.strings`, from a table for usual sizes."""
    return _STRING_COST[size] if size < 1024 else charges.strings(size)


def equality(expr: Call, operands: Sequence[Expr], codes: Sequence[Code]) -> Code:
    """`==` and `!=`."""
    left, right = (code.run for code in codes)
    cost = codes[0].cost + codes[1].cost
    kinds = {operand.type.kind for operand in operands}
    negate = expr.function == "_!=_"
    if kinds <= SCALARS and (len(kinds) == 1 or kinds <= {Kind.INT, Kind.UINT, Kind.DOUBLE}):
        compare: Binary = operator.ne if negate else operator.eq
        if codes[1].constant:
            value = value_of(codes[1])
            return Code(lambda frame: compare(left(frame), value), cost + 1)
        return Code(lambda frame: compare(left(frame), right(frame)), cost + 1)
    if kinds <= _TEXT and len(kinds) == 1:
        return Code(_text_comparison(left, right, operator.ne if negate else operator.eq), cost)
    price = charges.charge_for(expr.function, "not_equals" if negate else "equals")
    assert price is not None
    count = price

    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        charge(frame, count((a, b), None))
        work(frame, a)
        return equal(a, b) is not negate

    return Code(run, cost)


def _text_comparison(left: Run, right: Run, compare: Binary) -> Run:
    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        try:
            frame[0] += string_cost(min(len(a), len(b)))
            if frame[0] > frame[1]:
                raise CostExceeded
            return compare(a, b)
        except TypeError:
            return _null_comparison(a, b, compare)

    return run


def _null_comparison(left: Any, right: Any, compare: Binary) -> bool:
    """Equality is defined for all values; null has no order."""
    if compare is operator.eq or compare is operator.ne:
        return equal(left, right) is (compare is operator.eq)
    raise no_overload()


def comparison(expr: Call, operands: Sequence[Expr], codes: Sequence[Code]) -> Code | None:
    """Code for `<`, `<=`, `>`, `>=` if the types are known, or `None`."""
    left, right = (code.run for code in codes)
    cost = codes[0].cost + codes[1].cost
    kinds = {operand.type.kind for operand in operands}
    compare = ORDER[expr.function]
    if kinds <= {Kind.INT, Kind.UINT, Kind.BOOL}:
        return Code(_ordered(compare, left, right, codes[1]), cost + 1)
    if kinds == {Kind.STRING}:
        return Code(_text_comparison(left, right, ORDER[expr.function]), cost)
    return None


def _ordered(compare: Binary, left: Run, right: Run, right_code: Code) -> Run:
    """Compare numbers that Python orders as CEL does; null is an error."""
    value = value_of(right_code) if right_code.constant else None

    def against_constant(frame: Frame) -> bool:
        try:
            return compare(left(frame), value)
        except TypeError:
            raise no_overload() from None

    def both(frame: Frame) -> bool:
        try:
            return compare(left(frame), right(frame))
        except TypeError:
            raise no_overload() from None

    return against_constant if right_code.constant else both


def _global_match(text: Run, search: Callable[[str], object]) -> Run:
    """`matches(text, pattern)`: cel-go charges by length only for the member function."""

    def match(frame: Frame) -> bool:
        value = text(frame)
        if type(value) is not str:
            raise no_overload()
        return search(value) is not None

    return match


def text_call(expr: Call, operands: Sequence[Expr], codes: Sequence[Code]) -> Code | None:
    """`startsWith`, `endsWith` and `matches` with a constant, or `None`."""
    if not codes[-1].constant or not all(operand.type.kind is Kind.STRING for operand in operands):
        return None
    text, argument = codes[0].run, value_of(codes[1])
    cost = codes[0].cost
    if expr.function == "matches":
        search = compiled_pattern(argument).search
        if expr.target is None:
            return Code(_global_match(text, search), cost + 1)
        factor = ceil(len(argument) * charges.REGEX_FACTOR)

        def match(frame: Frame) -> bool:
            value = text(frame)
            if type(value) is not str:
                raise no_overload()
            frame[0] += ceil((1.0 + len(value)) * charges.STRING_FACTOR) * factor
            if frame[0] > frame[1]:
                raise CostExceeded
            return search(value) is not None

        return Code(match, cost)
    test = str.startswith if expr.function == "startsWith" else str.endswith

    def affix(frame: Frame) -> bool:
        try:
            return test(text(frame), argument)
        except TypeError:
            raise no_overload() from None

    return Code(affix, cost + charges.strings(len(argument)))
