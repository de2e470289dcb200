"""Code generation for calls of functions: the overload, its cost and its limits.

If the checker knows the types of all arguments, the single overload is called directly. Otherwise (dyn) the
overload is selected by the values at run time. The cost of a call is charged before or after it, as in
Kubernetes; results that can be larger than the cost says, and comparisons of nested values, are counted too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kubewright.cel.checking.types import Kind
from kubewright.cel.compilation.code import Code, Run
from kubewright.cel.compilation.frame import Frame, allocate, charge, work
from kubewright.cel.costs import charges
from kubewright.cel.functions import Overload
from kubewright.cel.library.strings import add_bounded
from kubewright.cel.syntax.ast import Call, Expr
from kubewright.cel.values import MapList, SetList, no_overload, type_of_value

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
_CONTAINERS: Final = frozenset({list, dict, SetList, MapList})
_BARE: Final = frozenset({"contains", "startsWith", "endsWith", "matches", "find"})
_NAME_ONLY: Final = frozenset({"size"})


def _static(operands: Sequence[Expr]) -> bool:
    return all(operand.type.kind not in (Kind.DYN, Kind.ERROR, Kind.PARAM, Kind.NULL) for operand in operands)


def call_overload(expr: Call, operands: Sequence[Expr], codes: Sequence[Code]) -> Code:
    """Return the code of a call of a function with evaluated arguments."""
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
        (item, charges.charge_for(function, item.id), _implementation(item))
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


def _signature(function: str, args: Iterable[Any]) -> str:
    """Return a call as errors print it: with argument types, except for the standard functions."""
    if function in _NAME_ONLY:
        return function
    if function in _BARE or not function.replace(".", "").isidentifier():
        return ""
    return f"{function}({', '.join(type_of_value(arg).name for arg in args)})"
