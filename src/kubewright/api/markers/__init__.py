"""Markers: schema information that a Python type does not carry.

A marker is a small immutable value. Put it in `Annotated` beside the type that it describes:

    size: Annotated[int, Ge(1), Le(10)]
    names: Annotated[list[Annotated[str, MinLen(1)]], MaxItems(8), ListSet]

A marker on an item type applies to each item, and an alias (`Name = Annotated[str, MaxLen(63)]`) carries its
markers to every field that uses it. Markers of a whole class are given to `mark`:

    @mark(ExactlyOneOf("host", "url"), Cel("self.min <= self.max", message="min is above max"))
    class Target(Struct): ...

`Marker.apply` writes the marker into an OpenAPI v3 schema and raises `MarkerError` when the schema has a type
that the marker does not support. The codec ignores markers: decoding an object never validates it.

- `base`: `Marker`, `MarkerError`, `mark`
- `validation`: bounds, lengths, patterns, enums, defaults, nullability, requiredness
- `rules`: CEL rules, immutability, unions
- `topology`: how server-side apply merges lists and maps
- `documentation`: descriptions, titles, examples, links
- `protobuf`: field numbers
- `schema_keywords`: keywords without a marker of their own
"""

from __future__ import annotations

from .base import Marker, MarkerError, Schema, class_markers, mark
from .documentation import Description, Example, ExternalDocs, MaxDescription, Title
from .protobuf import FieldNumber
from .rules import AtLeastOneOf, AtMostOneOf, Cel, ExactlyOneOf, Immutable, OneOf
from .schema_keywords import SchemaKeywords
from .topology import Atomic, ListMap, ListSet, ListType, MapType, StructType
from .validation import (
    AllowFloat,
    AsIntOrString,
    Default,
    EmbeddedResource,
    Enum,
    Float,
    Format,
    Ge,
    Gt,
    Int32,
    Int64,
    Integer,
    Le,
    LocalDefault,
    Lt,
    MaxItems,
    MaxLen,
    MaxProperties,
    MinItems,
    MinLen,
    MinProperties,
    MultipleOf,
    Nullable,
    Number,
    Pattern,
    PreserveUnknownFields,
    Required,
    Schemaless,
    TypeOverride,
    UniqueItems,
)

__all__ = [
    "AllowFloat",
    "AsIntOrString",
    "AtLeastOneOf",
    "AtMostOneOf",
    "Atomic",
    "Cel",
    "Default",
    "Description",
    "EmbeddedResource",
    "Enum",
    "ExactlyOneOf",
    "Example",
    "ExternalDocs",
    "FieldNumber",
    "Float",
    "Format",
    "Ge",
    "Gt",
    "Immutable",
    "Int32",
    "Int64",
    "Integer",
    "Le",
    "ListMap",
    "ListSet",
    "ListType",
    "LocalDefault",
    "Lt",
    "MapType",
    "Marker",
    "MarkerError",
    "MaxDescription",
    "MaxItems",
    "MaxLen",
    "MaxProperties",
    "MinItems",
    "MinLen",
    "MinProperties",
    "MultipleOf",
    "Nullable",
    "Number",
    "OneOf",
    "Pattern",
    "PreserveUnknownFields",
    "Required",
    "Schema",
    "SchemaKeywords",
    "Schemaless",
    "StructType",
    "Title",
    "TypeOverride",
    "UniqueItems",
    "class_markers",
    "mark",
]
