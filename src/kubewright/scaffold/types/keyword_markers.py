"""Markers for the keywords of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from kubewright.scaffold.source.python_source import Expression, Text, prefixed, value

from .builtin_types import comparable

_NUMERIC: Final = ("integer", "number")
_SIZES: Final = {
    "minLength": ("MinLen", "string"),
    "maxLength": ("MaxLen", "string"),
    "minItems": ("MinItems", "array"),
    "maxItems": ("MaxItems", "array"),
    "minProperties": ("MinProperties", "object"),
    "maxProperties": ("MaxProperties", "object"),
}
_CLASS_FLAGS: Final = {
    "x-kubernetes-preserve-unknown-fields": "PreserveUnknownFields",
    "x-kubernetes-embedded-resource": "EmbeddedResource",
}
_CEL_ARGUMENTS: Final = {
    "message": "message",
    "messageExpression": "message_expression",
    "reason": "reason",
    "fieldPath": "field_path",
    "optionalOldSelf": "optional_old_self",
}
_WITHOUT_EFFECT: Final = {"uniqueItems": False, "exclusiveMinimum": False, "exclusiveMaximum": False}


class MarkerSource(Protocol):
    """Writes a marker and imports it."""

    def __call__(self, name: str, *items: Expression) -> Expression:
        """Return the source of the marker `name` with these arguments."""


def keyword_markers(
    schema: Mapping[str, Any], made: Mapping[str, Any], marker: MarkerSource, *, of_class: bool = False
) -> list[Expression]:
    """Return the markers for the keywords of `schema` that differ from `made`, the schema of the type."""
    rest = {
        key: item
        for key, item in schema.items()
        if comparable({key: item}) != comparable({key: made.get(key)})
        and not (key in _WITHOUT_EFFECT and item == _WITHOUT_EFFECT[key])
    }
    kind = "object" if of_class else schema.get("type")
    markers: list[Expression] = []
    if "x-kubernetes-list-type" in rest and kind == "array":
        markers.append(_list_type(rest, marker))
    for key, limits in (("minimum", ("Ge", "Gt")), ("maximum", ("Le", "Lt"))):
        if key in rest and kind in _NUMERIC and (kind == "number" or rest[key] == int(rest[key])):
            exclusive = rest.pop(f"exclusive{key.capitalize()}", False)
            number = rest.pop(key)
            markers.append(marker(limits[exclusive], repr(int(number) if kind == "integer" else number)))
    if "multipleOf" in rest and kind in _NUMERIC:
        markers.append(marker("MultipleOf", repr(rest.pop("multipleOf"))))
    for key, (name, target) in _SIZES.items():
        of_string = target == "string" and schema.get("x-kubernetes-int-or-string")
        if key in rest and (kind == target or of_string):
            markers.append(marker(name, repr(rest.pop(key))))
    if "pattern" in rest and (kind == "string" or schema.get("x-kubernetes-int-or-string")):
        markers.append(marker("Pattern", Text(rest.pop("pattern"))))
    if not of_class and "format" in rest:
        markers.append(marker("Format", Text(rest.pop("format"))))
    if not of_class and "enum" in rest:
        markers.append(marker("Enum", *(value(item) for item in rest.pop("enum"))))
    if "x-kubernetes-map-type" in rest and kind == "object":
        name = "StructType" if of_class else "MapType"
        markers.append(marker(name, Text(rest.pop("x-kubernetes-map-type"))))
    for key, name in _CLASS_FLAGS.items():
        if rest.get(key) is True and (kind == "object" or name == "PreserveUnknownFields"):
            del rest[key]
            markers.append(marker(name))
    if isinstance(rest.get("title"), str):
        markers.append(marker("Title", Text(rest.pop("title"))))
    if "example" in rest:
        markers.append(marker("Example", value(rest.pop("example"))))
    for rule in rest.pop("x-kubernetes-validations", ()):
        markers.append(_cel(rule, marker))
    if rest:
        markers.append(marker("SchemaKeywords", value(dict(rest))))
    return markers


def _list_type(rest: dict[str, Any], marker: MarkerSource) -> Expression:
    kind = rest.pop("x-kubernetes-list-type")
    keys = rest.pop("x-kubernetes-list-map-keys", ())
    if kind == "map":
        return marker("ListMap", *(Text(key) for key in keys))
    return marker({"set": "ListSet", "atomic": "Atomic"}[kind])


def _cel(rule: Mapping[str, Any], marker: MarkerSource) -> Expression:
    items: list[Expression] = [Text(rule["rule"])]
    items += [
        prefixed(value(rule[key]), f"{argument}=") for key, argument in _CEL_ARGUMENTS.items() if key in rule
    ]
    return marker("Cel", *items)
