"""Code generation for the operators that are more than functions of their values.

`&&`, `||` and `?:` evaluate only the operands they need, and `&&` and `||` ignore an error of one operand if
the other decides. Index and optional access read attributes, which may be raw JSON. `in` with a constant list
is a set lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kubewright.cel.checking.types import Kind, Type
from kubewright.cel.compilation.code import Code, constant, value_of
from kubewright.cel.compilation.frame import Frame, charge
from kubewright.cel.compilation.overload_calls import call_overload
from kubewright.cel.convert import converter
from kubewright.cel.errors import CelError
from kubewright.cel.library import operators as ops
from kubewright.cel.library.optionals import field as optional_field
from kubewright.cel.library.optionals import select as optional_select
from kubewright.cel.syntax.ast import Call, Comprehension, Expr, Literal
from kubewright.cel.values import NONE, Optional, hashable_set, no_overload

if TYPE_CHECKING:
    from kubewright.cel.compilation.compiler import Compiler

Test = Callable[[Frame], bool]
_EXACT: Final = frozenset({Kind.INT, Kind.UINT, Kind.BOOL, Kind.TIMESTAMP, Kind.DURATION})


def _bool(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload()


def _checked_bool(code: Code, item: Type) -> Test:
    if item.kind is Kind.BOOL:
        return code.run
    run = code.run
    return lambda frame: _bool(run(frame))


def _and(compiler: Compiler, expr: Call) -> Code:
    return _logic(compiler, expr, decisive=False)


def _or(compiler: Compiler, expr: Call) -> Code:
    return _logic(compiler, expr, decisive=True)


def _logic(compiler: Compiler, expr: Call, *, decisive: bool) -> Code:
    left, right = (compiler.code(arg) for arg in expr.args)
    first = _checked_bool(left, expr.args[0].type)
    second = _checked_bool(right, expr.args[1].type)
    cost = right.cost

    def rescue(frame: Frame, error: CelError) -> bool:
        frame[0] += cost
        try:
            if second(frame) is decisive:
                return decisive
        except CelError:
            raise error from None
        raise error

    if decisive:

        def either(frame: Frame) -> bool:
            try:
                if first(frame):
                    return True
            except CelError as error:
                return rescue(frame, error)
            frame[0] += cost
            return second(frame)

        return Code(either, left.cost)

    def both(frame: Frame) -> bool:
        try:
            if not first(frame):
                return False
        except CelError as error:
            return rescue(frame, error)
        frame[0] += cost
        return second(frame)

    return Code(both, left.cost)


def _branch_cost(expr: Expr, code: Code) -> int:
    """Return the cost of a branch of `?:`, where a plain selection costs one less."""
    from kubewright.cel.compilation.compiler import is_attribute

    plain = is_attribute(expr) and not (isinstance(expr, Call) and expr.function == "_?_:_")
    return code.cost - 1 if plain else code.cost


def _conditional(compiler: Compiler, expr: Call) -> Code:
    if expr.kind == "optMap":
        return _opt_map(compiler, expr)
    condition, truthy, falsy = (compiler.code(arg) for arg in expr.args)
    test = _checked_bool(condition, expr.args[0].type)
    yes, no = truthy.run, falsy.run
    yes_cost, no_cost = _branch_cost(expr.args[1], truthy), _branch_cost(expr.args[2], falsy)

    def choose(frame: Frame) -> Any:
        if test(frame):
            frame[0] += yes_cost
            return yes(frame)
        frame[0] += no_cost
        return no(frame)

    return Code(choose, condition.cost)


def _opt_map(compiler: Compiler, expr: Call) -> Code:
    """`target.optMap(x, body)`: the target is evaluated once and, as in Kubernetes, charged twice."""
    has_value, present, _ = expr.args
    assert isinstance(has_value, Call)
    assert has_value.target is not None
    target = compiler.code(has_value.target)
    flat = isinstance(present, Comprehension)
    binding = present if isinstance(present, Comprehension) else _argument(present)
    (slot,) = compiler.enter({binding.accu_var: False})
    body = compiler.code(binding.result)
    compiler.leave()
    source, run = target.run, body.run
    extra = target.cost + 1 + body.cost + (0 if flat else 1)

    def apply(frame: Frame) -> Any:
        start = frame[0]
        value = source(frame)
        if not isinstance(value, Optional):
            raise no_overload()
        if not value.has_value:
            frame[0] += 1
            return NONE
        charge(frame, frame[0] - start + extra)
        frame[slot] = value.value
        result = run(frame)
        return result if flat else Optional(result)

    return Code(apply, target.cost + 1)


def _argument(expr: Expr) -> Comprehension:
    assert isinstance(expr, Call)
    (inner,) = expr.args
    assert isinstance(inner, Comprehension)
    return inner


def _not_strictly_false(compiler: Compiler, expr: Call) -> Code:
    inner = compiler.code(expr.args[0])
    run = inner.run

    def test(frame: Frame) -> bool:
        try:
            return run(frame) is not False
        except CelError:
            return True

    return Code(test, inner.cost + 1)


def _in(compiler: Compiler, expr: Call) -> Code:
    codes = [compiler.code(arg) for arg in expr.args]
    if codes[1].constant:
        items = value_of(codes[1])
        if isinstance(items, list):
            if not items:
                return constant(False)
            known = hashable_set(items)
            kind = expr.args[0].type.kind
            if known is not None and (kind in _EXACT or kind in (Kind.STRING, Kind.DOUBLE)):
                left = codes[0].run
                return Code(lambda frame: left(frame) in known, codes[0].cost)
    return call_overload(expr, expr.args, codes)


def _index_cost(expr: Expr, code: Code) -> int:
    from kubewright.cel.compilation.compiler import is_attribute

    return code.cost if is_attribute(expr) else code.cost + 1


def index(compiler: Compiler, expr: Call) -> tuple[Code, bool]:
    """`container[key]`, and whether it may yield raw JSON."""
    container, key = expr.args
    base, raw = compiler.attribute(container)
    key_code = compiler.code(key)
    cost = base.cost + _index_cost(key, key_code)
    run, key_run = base.run, key_code.run
    if container.type.kind is Kind.LIST and key.type.kind is Kind.INT:

        def item(frame: Frame) -> Any:
            items, position = run(frame), key_run(frame)
            if position >= 0:
                try:
                    return items[position]
                except (IndexError, KeyError):
                    pass
                except TypeError:
                    raise no_overload() from None
            raise CelError(f"index out of bounds: {position}")

        return Code(item, cost), raw
    if container.type.kind is Kind.MAP and key.type.kind is Kind.STRING:

        def entry(frame: Frame) -> Any:
            mapping, name = run(frame), key_run(frame)
            try:
                return mapping[name]
            except KeyError:
                raise CelError(f"no such key: {name}") from None
            except TypeError:
                raise no_overload() from None

        return Code(entry, cost), raw
    return Code(lambda frame: ops.index_any(run(frame), key_run(frame)), cost), raw


def _optional_access(compiler: Compiler, expr: Call) -> Code:
    container, key = expr.args
    base, raw = compiler.attribute(container)
    key_code = compiler.code(key)
    run, key_run = base.run, key_code.run
    of_object = False
    if isinstance(key, Literal) and expr.function == "_?._":
        target = container.type.params[0] if container.type.name == "optional_type" else container.type
        field = target.field(key.value) if target.kind is Kind.OBJECT else None
        name = field.key if field else key.value
        of_object = field is not None
        key_run = constant(name).run
    convert = converter(expr.type) if raw else None
    look = optional_field if of_object else optional_select

    def select(frame: Frame) -> Optional:
        """Accessing an absent value costs nothing."""
        found = look(run(frame), key_run(frame))
        if found.has_value:
            frame[0] += 1
            if convert is not None:
                found = convert(found)
        return found

    return Code(select, base.cost + _index_cost(key, key_code) - 1)


def _or_value(compiler: Compiler, expr: Call) -> Code:
    assert expr.target is not None
    left, right = compiler.code(expr.target), compiler.code(expr.args[0])
    first, second = left.run, right.run
    cost = right.cost
    unwrap = expr.function == "orValue"

    def choose(frame: Frame) -> Any:
        value = first(frame)
        if not isinstance(value, Optional):
            raise no_overload()
        if value.has_value:
            return value.value if unwrap else value
        frame[0] += cost
        return second(frame)

    return Code(choose, left.cost)


SPECIAL_FORMS: Final[dict[str, Callable[[Compiler, Call], Code]]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "@in": _in,
    "_[_]": _optional_access,
    "_[?_]": _optional_access,
    "_?._": _optional_access,
    "or": _or_value,
    "orValue": _or_value,
}
"""Code generators by function."""
