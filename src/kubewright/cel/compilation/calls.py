"""Code generation for calls: which generator is responsible.

Special forms (`special_forms`) and comparisons (`comparisons`) have generators of their own; everything else
is a call of an overload (`overload_calls`). Constant arguments are folded: patterns are compiled once,
conversions of constants are evaluated here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.cel.compilation.code import Code, constant, value_of
from kubewright.cel.compilation.comparisons import ORDER, comparison, equality, text_call
from kubewright.cel.compilation.overload_calls import call_overload
from kubewright.cel.compilation.special_forms import SPECIAL_FORMS
from kubewright.cel.library.conversions import CONVERSIONS
from kubewright.cel.library.regex import compiled as compiled_pattern
from kubewright.cel.syntax.ast import Call

if TYPE_CHECKING:
    from kubewright.cel.compilation.compiler import Compiler


def call(compiler: Compiler, expr: Call) -> Code:
    """Return the code of a call."""
    function = expr.function
    special = SPECIAL_FORMS.get(function)
    if special is not None:
        return special(compiler, expr)
    operands = expr.args if expr.target is None else [expr.target, *expr.args]
    codes = [compiler.code(operand) for operand in operands]
    if function in CONVERSIONS and len(codes) == 1 and codes[0].constant:
        return constant(call_overload(expr, operands, codes).run([0, 1 << 62, 0, [0]]))
    if function == "_==_" or function == "_!=_":
        return equality(expr, operands, codes)
    specialised: Code | None = None
    if function in ORDER:
        specialised = comparison(expr, operands, codes)
    elif function in ("startsWith", "endsWith", "matches"):
        specialised = text_call(expr, operands, codes)
    if specialised is not None:
        return specialised
    if function in ("find", "findAll") and codes[1].constant and type(value_of(codes[1])) is str:
        compiled_pattern(value_of(codes[1]))
    return call_overload(expr, operands, codes)
