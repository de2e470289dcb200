"""Whether a schema takes a default, with a complaint in words for the author of a type.

Only what a declaration can get wrong is looked at: type, enum, bounds, lengths, counts, patterns and required
fields, down the whole value. Fields that the schema fills in itself count as present.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .structural import Schema

_PYTHON: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def complaints(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Say everything that `schema` holds against `value`."""
    at = f"{path} " if path else ""
    if value is None:
        if not schema.get("nullable"):
            yield f"{at}is null; mark the field Nullable"
        return
    wanted = schema.get("type") or ("int-or-string" if schema.get("x-kubernetes-int-or-string") else None)
    if wanted == "int-or-string" and not (isinstance(value, int | str) and type(value) is not bool):
        yield f"{at}must be an integer or a string"
        return
    if wanted in _PYTHON and (
        not isinstance(value, _PYTHON[wanted]) or (type(value) is bool and wanted != "boolean")
    ):
        yield f"{at}must be of type {wanted}, not {type(value).__name__}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}must be one of {', '.join(map(repr, schema['enum']))}"
    if isinstance(value, str):
        yield from _text(schema, value, at)
    elif isinstance(value, list):
        yield from _count(schema, len(value), at, "Items", "items")
        for index, item in enumerate(value):
            yield from complaints(schema.get("items", {}), item, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from _object(schema, value, path)
    elif not isinstance(value, bool):
        yield from _number(schema, value, at)


def _text(schema: Schema, value: str, at: str) -> Iterator[str]:
    yield from _count(schema, len(value), at, "Length", "characters")
    if "pattern" in schema:
        import re2

        if not re2.search(schema["pattern"], value):
            yield f"{at}must match {schema['pattern']}"


def _number(schema: Schema, value: float, at: str) -> Iterator[str]:
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        yield f"{at}must be {'more than' if schema.get('exclusiveMinimum') else 'at least'} {low}"
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        yield f"{at}must be {'less than' if schema.get('exclusiveMaximum') else 'at most'} {high}"
    if step and value % step:
        yield f"{at}must be a multiple of {step}"
    if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
        yield f"{at}does not fit in 32 bits"


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[str]:
    yield from _count(schema, len(value), f"{path} " if path else "", "Properties", "entries")
    properties: Schema = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value and "default" not in properties.get(name, {}):
            yield f"{path}.{name} is required".lstrip(".")
    open_ended = schema.get("additionalProperties")
    for name, item in value.items():
        child = properties.get(name, open_ended if isinstance(open_ended, dict) else None)
        if child is not None:
            yield from complaints(child, item, f"{path}.{name}".lstrip("."))
        elif not open_ended and not schema.get("x-kubernetes-preserve-unknown-fields") and properties:
            yield f"{path}.{name} is not a field".lstrip(".")


def _count(schema: Schema, size: int, at: str, suffix: str, noun: str) -> Iterator[str]:
    low, high = schema.get("min" + suffix), schema.get("max" + suffix)
    if low is not None and size < low:
        yield f"{at}must have at least {low} {noun}"
    if high is not None and size > high:
        yield f"{at}must have at most {high} {noun}"
