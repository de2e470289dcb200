"""Code generation for calls: operators by checked types, functions by overload.

If the checker knows the types of all arguments, the single overload is called directly. Otherwise (dyn) the
overload is selected by the values at run time. Constant arguments are folded: patterns are compiled once,
membership in a constant list is a set lookup, conversions of constants are evaluated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kubewright.cel import charges
from kubewright.cel.ast import Call, Comprehension, Expr, Literal
from kubewright.cel.code import Code, Run, constant, value_of
from kubewright.cel.comparisons import ORDER, comparison, equality, text_call
from kubewright.cel.convert import converter
from kubewright.cel.errors import CelError
from kubewright.cel.frame import Frame, allocate, charge, work
from kubewright.cel.functions import Overload
from kubewright.cel.library import operators as ops
from kubewright.cel.library.conversions import CONVERSIONS
from kubewright.cel.library.optionals import field as optional_field
from kubewright.cel.library.optionals import select as optional_select
from kubewright.cel.library.regex import compiled as compiled_pattern
from kubewright.cel.library.strings import add_bounded
from kubewright.cel.types import Kind, Type
from kubewright.cel.values import (
    NONE,
    MapList,
    Optional,
    SetList,
    hashable_set,
    no_overload,
    type_of_value,
)

if TYPE_CHECKING:
    from kubewright.cel.compiler import Compiler


_GROWING: Final = frozenset(
    {
        "add_bytes",
        "add_list",
        "add_string",
        "list_flatten",
        "list_flatten_int",
        "list_join",
        "list_join_string",
        "string_format",
        "string_replace_string_string",
        "string_replace_string_string_int",
        "string_split_string",
        "string_split_string_int",
        "strings_quote",
    }
)
"""Overloads whose result can be larger than their cost says; it is counted as an allocation."""
_DEEP: Final = frozenset(
    {
        "in_list",
        "list_a_index_of_int",
        "list_a_last_index_of_int",
        "list_distinct",
        "list_sets_contains_list",
        "list_sets_equivalent_list",
        "list_sets_intersects_list",
    }
)
"""Overloads that compare elements, which can be nested; the visited nodes are counted as work."""
_EXACT: Final = frozenset({Kind.INT, Kind.UINT, Kind.BOOL, Kind.TIMESTAMP, Kind.DURATION})


def call(compiler: Compiler, expr: Call) -> Code:
    """Return the code of a call."""
    function = expr.function
    special = _SPECIAL.get(function)
    if special is not None:
        return special(compiler, expr)
    operands = expr.args if expr.target is None else [expr.target, *expr.args]
    codes = [compiler.code(operand) for operand in operands]
    if function in CONVERSIONS and len(codes) == 1 and codes[0].constant:
        return constant(_general(expr, operands, codes).run([0, 1 << 62, 0, [0]]))
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
    return _general(expr, operands, codes)


def _static(operands: Sequence[Expr]) -> bool:
    return all(operand.type.kind not in (Kind.DYN, Kind.ERROR, Kind.PARAM, Kind.NULL) for operand in operands)


def _general(expr: Call, operands: Sequence[Expr], codes: Sequence[Code]) -> Code:
    cost = sum(code.cost for code in codes)
    runs = [code.run for code in codes]
    if len(expr.overloads) == 1 and expr.overloads[0].impl is not None:
        only: Overload = expr.overloads[0]
        if _static(operands) or all(match is None for match in only.matchers):
            return _direct(only, runs, cost)
    return _dispatched(expr.function, expr.overloads, runs, cost)


def _implementation(overload: Overload) -> Callable[..., Any]:
    assert overload.impl is not None
    return add_bounded if overload.id in ("add_string", "add_bytes") else overload.impl


def _direct(overload: Overload, runs: list[Run], cost: int) -> Code:
    impl = _implementation(overload)
    price = charges.charge_for(overload.function, overload.id)
    if overload.id in _GROWING or overload.id in _DEEP:
        return Code(_limited(overload, impl, price, runs), cost)
    if price is None:
        cost += 1
        if len(runs) == 1:
            (only,) = runs

            def unary(frame: Frame) -> Any:
                value = only(frame)
                try:
                    return impl(value)
                except (TypeError, AttributeError):
                    raise _invalid_value(overload, (value,)) from None

            return Code(unary, cost)
        if len(runs) == 2:
            left, right = runs

            def binary(frame: Frame) -> Any:
                first, second = left(frame), right(frame)
                try:
                    return impl(first, second)
                except (TypeError, AttributeError):
                    raise _invalid_value(overload, (first, second)) from None

            return Code(binary, cost)

        def call_any(frame: Frame) -> Any:
            args = [run(frame) for run in runs]
            try:
                return impl(*args)
            except (TypeError, AttributeError):
                raise _invalid_value(overload, args) from None

        return Code(call_any, cost)
    count = price
    early = charges.before(overload.function)

    def run_charged(frame: Frame) -> Any:
        args = tuple([run(frame) for run in runs])
        try:
            if early:
                charge(frame, count(args, None))
                return impl(*args)
            result = impl(*args)
        except (TypeError, AttributeError):
            raise _invalid_value(overload, args) from None
        charge(frame, count(args, result))
        return result

    if overload.id == "lists_range":
        return Code(_range(runs[0], impl), cost)
    return Code(run_charged, cost)


def _limited(
    overload: Overload, impl: Callable[..., Any], price: charges.Charge | None, runs: list[Run]
) -> Run:
    """Return the code of an overload whose allocations or work are counted."""
    early = charges.before(overload.function)

    def run(frame: Frame) -> Any:
        args = tuple([run(frame) for run in runs])
        try:
            if price is None:
                charge(frame, 1)
            elif early:
                charge(frame, price(args, None))
            result = _invoke(frame, overload.id, impl, args)
        except (TypeError, AttributeError):
            raise _invalid_value(overload, args) from None
        if price is not None and not early:
            charge(frame, price(args, result))
        return result

    return run


def _invoke(frame: Frame, overload_id: str, impl: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call an implementation; count its work before and its allocation after."""
    if overload_id in _DEEP:
        items = args[-1] if overload_id == "in_list" else args[0]
        if not _CONTAINERS.isdisjoint(map(type, items)):
            work(frame, items, 1 if overload_id == "in_list" or len(args) == 1 else len(args[1]) or 1)
            if overload_id == "list_distinct":
                work(frame, items, len(items))
    result = impl(*args)
    if overload_id in _GROWING:
        allocate(frame, result)
    return result


_CONTAINERS: Final = frozenset({list, dict, SetList, MapList})


def _invalid_value(overload: Overload, args: Iterable[Any]) -> Exception:
    """Return the error for a value that does not have its declared type, such as a null."""
    if overload.accepts(args):
        raise AssertionError(f"{overload} failed on values it accepts")
    return no_overload()


def _range(run: Run, impl: Callable[[int], list[int]]) -> Run:
    def build(frame: Frame) -> list[int]:
        count = run(frame)
        if type(count) is not int:
            raise no_overload()
        if count >= 0:
            charge(frame, count + 1 + charges.LIST_COST)
        return impl(count)

    return build


def _dispatched(function: str, overloads: list[Overload], runs: list[Run], cost: int) -> Code:
    candidates = [
        (
            item,
            charges.charge_for(function, item.id),
            add_bounded if item.id in ("add_string", "add_bytes") else item.impl,
        )
        for item in overloads
        if item.impl is not None
    ]
    early = charges.before(function)

    def find(frame: Frame) -> Any:
        args = tuple([run(frame) for run in runs])
        for item, price, impl in candidates:
            if item.accepts(args):
                if price is None:
                    charge(frame, 1)
                    return _invoke(frame, item.id, impl, args)
                if function == "lists.range" and args[0] > 0:
                    charge(frame, args[0])
                if early:
                    charge(frame, price(args, None))
                    return _invoke(frame, item.id, impl, args)
                result = _invoke(frame, item.id, impl, args)
                charge(frame, price(args, result))
                return result
        raise no_overload(_signature(function, args))

    return Code(find, cost)


_BARE: Final = frozenset({"contains", "startsWith", "endsWith", "matches", "find"})
_NAME_ONLY: Final = frozenset({"size"})


def _signature(function: str, args: Iterable[Any]) -> str:
    """Return a call as errors print it: with argument types, except for the standard functions."""
    if function in _NAME_ONLY:
        return function
    if function in _BARE or not function.replace(".", "").isidentifier():
        return ""
    return f"{function}({', '.join(type_of_value(arg).name for arg in args)})"


def _bool(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload()


def _checked_bool(code: Code, item: Type) -> Run:
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
            value = second(frame)
        except CelError:
            raise error from None
        decided: bool = value is decisive
        if decided:
            return decisive
        raise error

    if decisive:

        def either(frame: Frame) -> bool:
            try:
                if first(frame):
                    return True
            except CelError as error:
                return rescue(frame, error)
            frame[0] += cost
            return second(frame)  # type: ignore[no-any-return]

        return Code(either, left.cost)

    def both(frame: Frame) -> bool:
        try:
            if not first(frame):
                return False
        except CelError as error:
            return rescue(frame, error)
        frame[0] += cost
        return second(frame)  # type: ignore[no-any-return]

    return Code(both, left.cost)


def branch_cost(expr: Expr, code: Code) -> int:
    """Return the cost of a branch of `?:`, where a plain selection costs one less."""
    from kubewright.cel.compiler import is_attribute

    plain = is_attribute(expr) and not (isinstance(expr, Call) and expr.function == "_?_:_")
    return code.cost - 1 if plain else code.cost


def _conditional(compiler: Compiler, expr: Call) -> Code:
    if expr.kind == "optMap":
        return _opt_map(compiler, expr)
    condition, truthy, falsy = (compiler.code(arg) for arg in expr.args)
    test = _checked_bool(condition, expr.args[0].type)
    yes, no = truthy.run, falsy.run
    yes_cost, no_cost = branch_cost(expr.args[1], truthy), branch_cost(expr.args[2], falsy)

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
    return _general(expr, expr.args, codes)


def _index_cost(expr: Expr, code: Code) -> int:
    from kubewright.cel.compiler import is_attribute

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
                return convert(found)  # type: ignore[no-any-return]
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


_SPECIAL: Final[dict[str, Callable[[Compiler, Call], Code]]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "@in": _in,
    "_[_]": lambda compiler, expr: _optional_access(compiler, expr),
    "_[?_]": _optional_access,
    "_?._": _optional_access,
    "or": _or_value,
    "orValue": _or_value,
}
