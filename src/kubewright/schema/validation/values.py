"""Validation of a value against schema keywords, with the messages of kube-apiserver.

The walk follows the structure of the value. Names such as `spec.ports[0].name` appear in messages ("... in
body should match ..."); the field of an error is that name below the path of the validated value, which is
the root for an object and `status` for a status that is validated alone.

With an old value (`Correlated`), errors of unchanged values are dropped: values that were stored before a
schema became stricter remain valid until they change (ratcheting).

Numbers follow Go: a whole number is an int64, everything else a float64.
"""

from __future__ import annotations

import math
from typing import Any, Final

from kubewright.api.field_errors import FieldError
from kubewright.api.values.go_format import format_float, marshal_json, quote
from kubewright.schema import field_errors as fe

from .compiled import INVALID, Compiled
from .correlation import Correlated, identical

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
_MAX_SAFE: Final = float((1 << 53) - 1)
_MAX_FLOAT32: Final = 2.0**128 - 2.0**103
_PLAIN_STRING, _PLAIN_OTHER = 7, 6
"""Number of checks that a string or boolean without further keywords passes."""


def validate_value(
    compiled: Compiled,
    value: Any,
    base: str = fe.ROOT,
    correlated: Correlated | None = None,
    bad: frozenset[int] | None = None,
) -> list[FieldError]:
    """Return all schema errors of a value; `base` is the path of the value in its object.

    If `bad` is given, only the objects and lists in it are visited.
    """
    run = _Run(base, bad)
    errors: list[FieldError] = []
    run.correlated(compiled, value, "", correlated, errors)
    return list(dict.fromkeys(errors))


def is_valid(compiled: Compiled, value: Any) -> bool:
    """Whether a value has no schema errors."""
    errors: list[FieldError] = []
    _Run(fe.ROOT).value(compiled, value, "", None, errors)
    return not errors


def logic_is_valid(compiled: Compiled, value: Any) -> bool:
    """Whether `allOf`, `anyOf`, `oneOf` and `not` hold."""
    errors: list[FieldError] = []
    _Run(fe.ROOT).logic(compiled, value, "", None, errors)
    return not errors


def number_is_valid(compiled: Compiled, value: float) -> bool:
    """Return whether a number satisfies type, format, bounds and enum."""
    errors: list[FieldError] = []
    run = _Run(fe.ROOT)
    run.check_type(compiled, value, "", errors)
    run.number(compiled, value, "", errors)
    return not errors and (compiled.enum is None or enum_matches(compiled.enum, value))


def enum_matches(enum: list[Any], value: Any) -> bool:
    """Return whether a value is in an enum; numbers are converted to the listed type first."""
    for listed in enum:
        if type(listed) is int and type(value) is float and math.isfinite(value):
            if int(value) == listed:
                return True
        elif type(listed) is float and type(value) is int:
            if float(value) == listed:
                return True
        elif listed is not None and identical(listed, value):
            return True
    return False


def type_of(value: Any) -> str:
    """Return the JSON schema type of a value."""
    if type(value) is str:
        return "string"
    if type(value) is bool:
        return "boolean"
    if type(value) is int:
        return "integer" if INT64_MIN <= value <= INT64_MAX else "number"
    if type(value) is float:
        return "number"
    if type(value) is dict:
        return "object"
    return "null" if value is None else "array"


class _Run:
    """One validation. Methods append to `errors` and return the number of passed checks, which decides which
    alternative of an `anyOf` or `oneOf` reports its errors."""

    __slots__ = ("bad", "base")

    def __init__(self, base: str, bad: frozenset[int] | None = None) -> None:
        self.base = base
        self.bad = bad

    def _field(self, name: str) -> str:
        name = name.removeprefix(".")
        return fe.child(self.base, name) if name else self.base

    def correlated(
        self, compiled: Compiled, value: Any, name: str, pair: Correlated | None, errors: list[FieldError]
    ) -> int:
        """Validate, and drop the errors of an unchanged value."""
        if pair is None:
            return self.value(compiled, value, name, None, errors)
        found: list[FieldError] = []
        count = self.value(compiled, value, name, pair, found)
        if found and not pair.unchanged():
            errors += found
        return count

    def value(
        self, compiled: Compiled, value: Any, name: str, pair: Correlated | None, errors: list[FieldError]
    ) -> int:
        if value is None:
            count = 1
            if compiled.types and not compiled.node.nullable:
                errors.append(self._type_error(name, ",".join(compiled.types), "null"))
                count = 0
            self._enum(compiled, None, name, errors)
            return count
        if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
            value = float(value)
        count = 3
        if compiled.types or compiled.format:
            count += 1 + self.check_type(compiled, value, name, errors)
        if compiled.logic:
            bad, self.bad = self.bad, None
            count += self.logic(compiled, value, name, pair, errors)
            self.bad = bad
        count += 1
        kind = type(value)
        if kind is str:
            count += 1 + (compiled.format_check is not None)
            self._string(compiled, value, name, errors)
        elif kind is int or kind is float:
            count += 2
            self.number(compiled, value, name, errors)
        elif kind is list:
            count += 2 + self._list(compiled, value, name, pair, errors)
        if compiled.enum is not None:
            self._enum(compiled, value, name, errors)
        if kind is dict:
            count += 1 + self._object(compiled, value, name, pair, errors)
        return count

    def _type_error(self, name: str, wanted: str, actual: str) -> FieldError:
        return fe.type_invalid(
            self._field(name), actual, f"{name} in body must be of type {wanted}: {quote(actual)}"
        )

    def check_type(self, compiled: Compiled, value: Any, name: str, errors: list[FieldError]) -> int:
        types = compiled.types
        actual = type_of(value)
        if actual in types:
            return 1
        if actual == "number" and "integer" in types and _is_whole(value):
            return 1
        if actual == "integer" and "number" in types:
            return 1
        sequence = actual in ("string", "array")
        if compiled.format and not sequence:
            go_format = {"integer": "int64", "number": "float64"}.get(actual, "")
            if go_format == compiled.format:
                return 1
            errors.append(self._type_error(name, compiled.format, go_format))
            return 0
        if compiled.format and sequence and not ("number" in types or "integer" in types):
            return 1
        errors.append(self._type_error(name, ",".join(types), actual))
        return 0

    def _enum(self, compiled: Compiled, value: Any, name: str, errors: list[FieldError]) -> None:
        if compiled.enum is None or (value is not None and enum_matches(compiled.enum, value)):
            return
        listed = [item if type(item) is str else marshal_json(item) for item in compiled.enum]
        errors.append(fe.not_supported(self._field(name), value, listed))

    def _string(self, compiled: Compiled, value: str, name: str, errors: list[FieldError]) -> None:
        if compiled.max_length is not None and len(value) > compiled.max_length:
            errors.append(fe.too_long(self._field(name), compiled.max_length))
        elif compiled.min_length is not None and len(value) < compiled.min_length:
            detail = f"{name} in body should be at least {compiled.min_length} chars long"
            errors.append(fe.invalid(self._field(name), value, detail))
        elif compiled.pattern is not None and not compiled.pattern(value):
            detail = f"{name} in body should match '{compiled.pattern_text}'"
            errors.append(fe.invalid(self._field(name), value, detail))
        if compiled.format_check is not None and not compiled.format_check(value):
            errors.append(self._type_error(name, compiled.format, value))

    def number(self, compiled: Compiled, value: float, name: str, errors: list[FieldError]) -> None:
        if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
            value = float(value)
        problem = _range_problem(compiled, value, "Checked", name)
        if problem:
            errors.append(fe.invalid(self.base, "", problem))
        if compiled.multiple_of is not None:
            self._multiple_of(compiled, value, name, errors)
        if compiled.minimum is not None:
            value, bound = self._bound(compiled, compiled.minimum, value, "Minimum boundary", name, errors)
            if value <= bound if compiled.exclusive_minimum else value < bound:
                word = "greater than" if compiled.exclusive_minimum else "greater than or equal to"
                errors.append(
                    fe.invalid(self._field(name), value, f"{name} in body should be {word} {_plain(bound)}")
                )
        if compiled.maximum is not None:
            value, bound = self._bound(compiled, compiled.maximum, value, "Maximum boundary", name, errors)
            if value >= bound if compiled.exclusive_maximum else value > bound:
                word = "less than" if compiled.exclusive_maximum else "less than or equal to"
                errors.append(
                    fe.invalid(self._field(name), value, f"{name} in body should be {word} {_plain(bound)}")
                )

    def _bound(
        self, compiled: Compiled, bound: float, value: float, what: str, name: str, errors: list[FieldError]
    ) -> tuple[float, float]:
        """Convert value and bound to one type; a bound outside the range of the type is an error."""
        problem = _range_problem(compiled, float(bound), what, name)
        if problem:
            errors.append(fe.invalid(self.base, "", problem))
            return float(value), float(bound)
        return value, int(bound) if type(value) is int else float(bound)

    def _multiple_of(self, compiled: Compiled, value: float, name: str, errors: list[FieldError]) -> None:
        assert compiled.multiple_of is not None
        value, factor = self._bound(compiled, compiled.multiple_of, value, "MultipleOf", name, errors)
        if factor <= 0:
            detail = f"factor MultipleOf declared for {name} must be positive: {_plain(factor)}"
            errors.append(fe.invalid(self._field(name), factor, detail))
            return
        if type(value) is int and type(factor) is int:
            fits = value % factor == 0
        else:
            fits = _is_whole(1 / factor * value if factor < 1 else value / factor)
        if not fits:
            detail = f"{name} in body should be a multiple of {_plain(factor)}"
            errors.append(fe.invalid(self._field(name), value, detail))

    def _list(
        self,
        compiled: Compiled,
        value: list[Any],
        name: str,
        pair: Correlated | None,
        errors: list[FieldError],
    ) -> int:
        count = 0
        items = compiled.items
        bad = self.bad
        if items is not None:
            plain = items.plain
            for position, item in enumerate(value):
                if plain is not None and type(item) is plain:
                    count += _PLAIN_STRING if plain is str else _PLAIN_OTHER
                    continue
                if bad is not None and _is_fine(items, item, bad):
                    continue
                old = pair.item(position) if pair is not None else None
                count += self.correlated(items, item, f"{name}[{position}]", old, errors)
        if compiled.min_items is not None and len(value) < compiled.min_items:
            detail = f"{name} in body should have at least {compiled.min_items} items"
            errors.append(fe.invalid(self._field(name), len(value), detail))
        if compiled.max_items is not None and len(value) > compiled.max_items:
            errors.append(fe.too_many(self._field(name), len(value), compiled.max_items))
        return count

    def _object(
        self,
        compiled: Compiled,
        value: dict[str, Any],
        name: str,
        pair: Correlated | None,
        errors: list[FieldError],
    ) -> int:
        count = 0
        if compiled.min_properties is not None and len(value) < compiled.min_properties:
            detail = f"{name} in body should have at least {compiled.min_properties} properties"
            errors.append(fe.invalid(self._field(name), len(value), detail))
        if compiled.max_properties is not None and len(value) > compiled.max_properties:
            errors.append(fe.too_many(self._field(name), len(value), compiled.max_properties))
        additional = compiled.additional
        forbidden = compiled.additional_declared is False
        bad = self.bad
        for key in sorted(value):
            item = value[key]
            declared = compiled.field(key)
            child = declared or additional
            if child is None:
                if forbidden:
                    detail = f"{name}.{key} in body is a forbidden property"
                    errors.append(fe.invalid(self._field(name), key, detail))
                continue
            if type(item) is child.plain:
                count += _PLAIN_STRING if child.plain is str else _PLAIN_OTHER
                continue
            if bad is not None and _is_fine(child, item, bad):
                continue
            where = key if declared is not None and not name else f"{name}.{key}"
            old = (
                pair.field(key) if pair is not None and (name or key not in ("kind", "apiVersion")) else None
            )
            count += self.correlated(child, item, where, old, errors)
        for key in compiled.node.required:
            if key not in value:
                errors.append(fe.required(self._field(f"{name}.{key}")))
        return count

    def logic(
        self, compiled: Compiled, value: Any, name: str, pair: Correlated | None, errors: list[FieldError]
    ) -> int:
        count = 0
        if compiled.any_of:
            count += self._any_of(compiled, value, name, pair, errors)
        if compiled.one_of:
            count += self._one_of(compiled, value, name, pair, errors)
        if compiled.all_of:
            passed = 0
            for part in compiled.all_of:
                found: list[FieldError] = []
                count += self.value(part, value, name, pair, found)
                passed += not found
                errors += found
            if passed != len(compiled.all_of):
                none = "" if passed else ". None validated"
                errors.append(self._logic_error(f"{quote(name)} must validate all the schemas (allOf){none}"))
        if compiled.not_ is not None:
            found = []
            self.value(compiled.not_, value, name, pair, found)
            if not found:
                errors.append(self._logic_error(f"{quote(name)} must not validate the schema (not)"))
        return count

    def _any_of(
        self, compiled: Compiled, value: Any, name: str, pair: Correlated | None, errors: list[FieldError]
    ) -> int:
        best: tuple[int, list[FieldError]] | None = None
        for part in compiled.any_of:
            found: list[FieldError] = []
            count = self.value(part, value, name, pair, found)
            if not found:
                return count
            if best is None or count > best[0]:
                best = count, found
        assert best is not None
        errors.append(self._logic_error(f"{quote(name)} must validate at least one schema (anyOf)"))
        errors += best[1]
        return best[0]

    def _one_of(
        self, compiled: Compiled, value: Any, name: str, pair: Correlated | None, errors: list[FieldError]
    ) -> int:
        best: tuple[int, list[FieldError]] | None = None
        passed = first = 0
        for part in compiled.one_of:
            found: list[FieldError] = []
            count = self.value(part, value, name, pair, found)
            if not found:
                first = first or count
                passed += 1
                best = None
            elif not passed and (best is None or count > best[0]):
                best = count, found
        if passed == 1:
            return first
        how = f"Found {passed} valid alternatives" if passed else "Found none valid"
        errors.append(
            self._logic_error(f"{quote(name)} must validate one and only one schema (oneOf). {how}")
        )
        if best is None:
            return 0
        errors += best[1]
        return best[0]

    def _logic_error(self, detail: str) -> FieldError:
        return fe.invalid(self.base, "", detail)


def _is_fine(compiled: Compiled, value: Any, bad: frozenset[int]) -> bool:
    """Return whether the fast check found the value valid."""
    if type(value) is dict or type(value) is list:
        return id(value) not in bad
    return compiled.check is not None and not compiled.check(value, []) & INVALID


def _is_whole(value: float) -> bool:
    """Return whether a float is integral, with the tolerance of Go's swagger library."""
    if not math.isfinite(value) or not -_MAX_SAFE <= value <= _MAX_SAFE:
        return False
    rounded = float(math.trunc(value))
    difference = abs(value - rounded)
    return difference == 0 or (rounded != 0 and difference / (abs(value) + abs(rounded)) < 1e-9)


def _plain(number: float) -> str:
    return str(number) if type(number) is int else format_float(number)


def _range_problem(compiled: Compiled, value: float, what: str, name: str) -> str:
    """Return why a number is outside the range of its type and format, or an empty string."""
    fits = True
    if compiled.number_type == "integer":
        if type(value) is float and not (value.is_integer() and abs(value) < 1e21):
            fits = False
        elif compiled.number_format == "int32":
            fits = -(1 << 31) <= value < 1 << 31
        else:
            fits = INT64_MIN <= int(value) <= INT64_MAX
    elif compiled.number_format == "float":
        fits = abs(value) < _MAX_FLOAT32
    if fits:
        return ""
    kind = f"with format {compiled.number_format}" if compiled.number_format else "(default format)"
    return f"{what} value must be of type {compiled.number_type} {kind} in {name}"
