"""Steps of a compiled JSONPath.

A step maps the current values to the next ones: a field, a slice, a filter, a recursive descent. Steps are
closures, created once per expression. Their second argument is whether missing keys are allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kubewright.api.values.go_format import marshal_json

MAX_RESULTS: Final = 1_000_000

Values: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Values, bool], Values]


class JSONPathError(ValueError):
    """An expression is malformed or does not match the data."""


def walk(steps: list[Step], values: Values, lenient: bool) -> Values:
    """Run steps one after the other."""
    for step in steps:
        values = step(values, lenient)
        if len(values) > MAX_RESULTS:
            raise JSONPathError(f"more than {MAX_RESULTS} results; narrow the expression")
    return values


def _go_type(value: Any) -> str:
    names: dict[type, str] = {
        dict: "map[string]interface {}", str: "string", bool: "bool", int: "int64", float: "float64",
    }  # fmt: skip
    return names.get(type(value), type(value).__name__)


def text_of(value: Any) -> str:
    """Format a value as kubectl prints it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, int):
        return str(value)
    return marshal_json(value)


def _float_text(value: float) -> str:
    """Format a float as Go does: shortest form, with an exponent below 1e-4 and from 1e21."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(value)]
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        text = repr(value)
        if "e" in text:
            text = f"{value:.0f}"
        return text.removesuffix(".0")
    mantissa, _, exponent = f"{value!r}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}"


def field(name: str) -> Step:
    """Return a step that selects the value of a key."""

    def step(values: Values, lenient: bool) -> Values:
        found = [value[name] for value in values if type(value) is dict and name in value]
        if not found and values and not lenient:
            raise JSONPathError(f"{name} is not found")
        return found

    return step


def _children(value: Any) -> Values:
    if type(value) is dict:
        return list(value.values())
    return value if type(value) is list else []


def wildcard(values: Values, lenient: bool) -> Values:
    """Select all items of lists and values of maps."""
    return [child for value in values for child in _children(value)]


def descend(values: Values, lenient: bool) -> Values:
    """Select the values and everything below them, parents first."""
    result: Values = []
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        children = _children(value)
        if children or (type(value) is str and value):
            result.append(value)
            pending.extend(reversed(children))
        if len(result) > MAX_RESULTS:
            break
    return result


def constant(value: Any) -> Step:
    """Return a step that yields a number or boolean, once per value."""
    return lambda values, lenient: [value] * len(values)


def literal(text: str) -> Step:
    """Return a step that yields text."""
    return lambda values, lenient: [text]


def identifier(name: str) -> Step:
    """Return a step that raises the error for an unknown identifier."""

    def step(values: Values, lenient: bool) -> Values:
        if name == "end":
            raise JSONPathError("not in range, nothing to end")
        raise JSONPathError(f"unrecognized identifier {name}")

    return step


def union(branches: list[list[Step]]) -> Step:
    """Return a step that concatenates the results of all branches."""

    def step(values: Values, lenient: bool) -> Values:
        return [found for steps in branches for found in walk(steps, values, lenient)]

    return step


def item_slice(start: int | None, stop: int | None, stride: int | None, *, single: bool) -> Step:
    """Return a step for `[start:stop:stride]`, or `[start]` if `single`. Out of bounds is an error."""

    def step(values: Values, lenient: bool) -> Values:
        result: Values = []
        for value in values:
            if value is None:
                continue
            if type(value) is not list:
                raise JSONPathError(f"{_go_type(value)} is not array or slice")
            length = len(value)
            first = (start or 0) + (length if (start or 0) < 0 else 0)
            if single:
                last = first + 1
            else:
                last = length if stop is None else stop + (length if stop < 0 else 0)
            if first == last:
                continue
            if not 0 <= first < length:
                raise JSONPathError(f"array index out of bounds: index {first}, length {length}")
            if not 0 <= last <= length:
                raise JSONPathError(f"array index out of bounds: index {last - 1}, length {length}")
            if first > last:
                raise JSONPathError(f"starting index {first} is greater than ending index {last}")
            if stride is not None and stride <= 0:
                raise JSONPathError("step must be > 0")
            result.extend(value[first : last : stride or 1])
        return result

    return step


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


def item_filter(left: list[Step], name: str, right: list[Step]) -> Step:
    """Return a step that keeps items for which the comparison is true; without `name`, `left` must exist."""
    compare = _COMPARISONS.get(name)

    def keep(item: Any, lenient: bool) -> bool:
        if not name:
            try:
                return bool(walk(left, [item], lenient))
            except JSONPathError:
                return False
        sides: Values = []
        for steps in (left, right):
            found = walk(steps, [item], lenient)
            if not found:
                return False
            if len(found) > 1:
                raise JSONPathError("can only compare one element at a time")
            sides.append(found[0])
        if compare is None:
            raise JSONPathError(f"unrecognized filter operator {name}")
        return _compare(compare, sides[0], sides[1])

    def step(values: Values, lenient: bool) -> Values:
        result: Values = []
        for value in values:
            if type(value) is not list:
                raise JSONPathError(f"{text_of(value)} is not array or slice and cannot be filtered")
            result.extend(item for item in value if keep(item, lenient))
        return result

    return step


def _compare(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    kinds = (bool, int, float, str)
    if type(left) not in kinds or type(right) not in kinds:
        raise JSONPathError("invalid type for comparison")
    if type(left) is not type(right):
        raise JSONPathError("incompatible types for comparison")
    if type(left) is bool and compare not in (operator.eq, operator.ne):
        raise JSONPathError("invalid type for comparison")
    return compare(left, right)
