"""Fields of a spec, and values to try for each: valid ones, the limits of the schema, and just beyond them.

A field is a leaf of the schema: a scalar, a list, a map, or an object without declared properties. Values are
chosen without randomness, so that an exploration can be repeated. Which of them are valid is decided by the
API server: values beyond a limit must be rejected, or be handled by the operator.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]
REMOVED: Final = "<removed>"
"""Stands for the absence of an optional field."""
MAX_VALUES = 6
MAX_LENGTH = 300
MAX_DEPTH = 6
_STRINGS: Final = ("example", "example-2", "a", "1", "10", "100Mi", "1h", "http://example.com", "")
_FORMATS: Final = {
    "date-time": ("2030-01-01T00:00:00Z", "2031-06-01T12:00:00Z"),
    "date": ("2030-01-01", "2031-06-01"),
    "duration": ("1h", "30s"),
    "ipv4": ("10.0.0.1", "192.168.0.1"),
    "ipv6": ("::1", "2001:db8::1"),
    "uri": ("http://example.com/", "https://example.org/a"),
    "email": ("a@example.com", "b@example.com"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "00000000-0000-4000-8000-000000000000"),
    "byte": ("YQ==", "YmI="),
}


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """A field that can be set on its own."""

    path: tuple[str, ...]
    """Names from the spec on, such as `("spec", "storage", "size")`."""
    schema: Schema
    is_required: bool = False

    def __str__(self) -> str:
        return ".".join(self.path)


def fields_of(schema: Schema, path: tuple[str, ...] = ("spec",)) -> Iterator[FieldSchema]:
    """Return the leaf fields of the schema of a spec."""
    required = schema.get("required") or ()
    for name, child in (schema.get("properties") or {}).items():
        below = (*path, name)
        if child.get("properties") and len(below) < MAX_DEPTH:
            yield from fields_of(child, below)
        else:
            yield FieldSchema(below, child, name in required)


def values_for(field: FieldSchema, current: Any) -> list[Any]:
    """Return values to try for a field, without its current value; `REMOVED` if it is optional."""
    found: list[Any] = []
    for value in _candidates(field.schema, current):
        if value != current and not any(_same(value, each) for each in found):
            found.append(value)
    found = found[:MAX_VALUES]
    if not field.is_required and current is not None:
        found.append(REMOVED)
    return found


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _candidates(schema: Schema, current: Any) -> Iterator[Any]:
    if schema.get("enum"):
        yield from schema["enum"]
        if schema.get("type") == "string":
            yield "not-in-the-enum"
        return
    if schema.get("default") is not None:
        yield schema["default"]
    if schema.get("x-kubernetes-int-or-string"):
        yield from (1, "50%", "1")
        return
    match schema.get("type"):
        case "boolean":
            yield from (True, False)
        case "integer" | "number":
            yield from _numbers(schema, current)
        case "string":
            yield from _strings(schema, current)
        case "array":
            yield from _lists(schema, current)
        case "object":
            yield from _maps(schema)


def _numbers(schema: Schema, current: Any) -> Iterator[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    is_integer = schema["type"] == "integer"
    if isinstance(current, int | float):
        yield current + 1
    if low is not None:
        yield from (low, low + 1, low - 1)
    if high is not None:
        yield from (high, high + 1)
    if low is None:
        yield from (0, -1)
    yield from (1, 2) if is_integer else (1.5, 0.25)


def _strings(schema: Schema, current: Any) -> Iterator[str]:
    if schema.get("format") in _FORMATS:
        yield from _FORMATS[schema["format"]]
    pattern = schema.get("pattern")
    known = [f"{current}x", f"{current}-2"] if isinstance(current, str) and current else []
    texts = [*known, *_STRINGS]
    if pattern:
        texts = [each for each in texts if re.search(pattern, each)]
        yield from texts
        yield "does not match: ~"
    least, most = schema.get("minLength"), schema.get("maxLength")
    if least:
        yield "a" * least
        yield "a" * (least - 1)
    if most is not None and most <= MAX_LENGTH:
        yield "a" * most
        yield "a" * (most + 1)
    if not pattern:
        yield from texts


def _lists(schema: Schema, current: Any) -> Iterator[list[Any]]:
    if isinstance(current, list) and current:
        yield current[1:]
        yield current[:-1]
        yield current[::-1]
    items = schema.get("items") or {}
    least, most = schema.get("minItems") or 0, schema.get("maxItems")
    values = list(_items(items))
    yield []
    for count in dict.fromkeys((1, 2, least, least - 1, most, (most or 0) + 1)):
        if count and 0 < count <= 20 and values:
            yield [copy.deepcopy(values[index % len(values)]) for index in range(count)]


def _items(schema: Schema) -> Iterator[Any]:
    """Return valid values of list items or map values."""
    if schema.get("type") == "object" and schema.get("properties"):
        for variant in range(2):
            yield _object(schema, variant)
        return
    for value in _candidates(schema, None):
        if _is_valid(schema, value):
            yield value


def _object(schema: Schema, variant: int) -> dict[str, Any]:
    """Return an object with its required properties, and all others in the second variant."""
    required = schema.get("required") or ()
    result = {}
    for name, child in schema["properties"].items():
        if name in required or variant:
            values = list(_items(child))
            if values:
                result[name] = values[variant % len(values)]
    return result


def _maps(schema: Schema) -> Iterator[dict[str, Any]]:
    yield {}
    if schema.get("properties"):
        yield from (_object(schema, variant) for variant in range(2))
        return
    additional = schema.get("additionalProperties")
    values = list(_items(additional)) if isinstance(additional, Mapping) else ["example"]
    if values:
        yield {"key": values[0]}
        yield {"key": values[-1], "other": values[0]}


def _is_valid(schema: Schema, value: Any) -> bool:
    """Whether a scalar is within the limits of its schema."""
    if schema.get("enum"):
        return value in schema["enum"]
    if isinstance(value, str):
        length = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", MAX_LENGTH)
        return length and (not schema.get("pattern") or bool(re.search(schema["pattern"], value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        return bool(low <= value <= high)
    return True


def get_field(obj: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value at a path, or `None`."""
    value: Any = obj
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def with_field(obj: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of an object with another value at a path, or without the field for `REMOVED`."""
    result: dict[str, Any] = copy.deepcopy(dict(obj))
    parent = result
    for name in path[:-1]:
        parent = parent.setdefault(name, {})
    if value is REMOVED:
        parent.pop(path[-1], None)
    else:
        parent[path[-1]] = copy.deepcopy(value)
    return result
