"""Structural OpenAPI v3 schemas from Python types, as CustomResourceDefinitions contain them.

Mapping of types:

| Python | schema |
|---|---|
| `str`, `bool`, `bytes` | string, boolean, string of format byte |
| `int`, `Int64`, `Int32` | integer of format int64, int64, int32 |
| `float` | number; rejected unless allowed, because rounding differs between languages |
| `Literal`, `enum.Enum` | enum |
| `list[T]`, `tuple[T, ...]` / `set[T]` | array / array of list type set |
| `dict[str, T]` | object with additionalProperties |
| `int | str` | int-or-string; other unions are rejected |
| `Quantity`, `Time`, `Duration` | int-or-string with a pattern, date-time, string |
| a `Struct` | object with properties |
| a built-in type (`PodTemplateSpec`) | its schema, expanded; metadata is a plain object |
| `Any`, `RawObject` | any value, any object; unknown fields are preserved |

A field without a default is required. A default becomes the schema's default, except `None` and an empty
list, set or map made by a factory, which only make the field optional. `X | None` is optional, not nullable.
Docstrings of classes and fields become descriptions; a field's docstring takes precedence over its type's.

Problems are collected during the walk, and `schema_of` raises them together.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from inspect import cleandoc
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin
from uuid import UUID

import msgspec

from kubewright.api.encoding.codec import to_plain
from kubewright.api.markers import (
    AllowFloat,
    Description,
    Immutable,
    ListType,
    LocalDefault,
    Marker,
    MarkerError,
    MaxDescription,
    OneOf,
    Required,
    class_markers,
)
from kubewright.api.meta import MetaObject, ObjectMeta
from kubewright.api.objects import Object
from kubewright.api.presence import copy_value
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Duration
from kubewright.schema.defaulting import apply_defaults
from kubewright.schema.pruning import prune
from kubewright.schema.structural import Node, Schema
from kubewright.schema.validation.compiled import Compiled
from kubewright.schema.validation.values import validate_value

from .errors import DeclarationError, Problem
from .from_builtin import (
    INT_OR_STRING,
    OBJECT_META,
    OBJECT_META_EXPANDED,
    QUANTITY,
    RAW,
    TIME,
    RecursiveSchema,
    builtin_definition,
    builtin_schema,
)
from .source import limit_descriptions, source_of
from .struct_fields import StructField, struct_fields
from .topology import topology_complaints

_SCALARS: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"format": "int64", "type": "integer"},
    bytes: {"format": "byte", "type": "string"},
    datetime: TIME,
    date: {"format": "date", "type": "string"},
    UUID: {"format": "uuid", "type": "string"},
    Duration: {"type": "string"},
    Quantity: QUANTITY,
    msgspec.Raw: RAW,
    Any: {"x-kubernetes-preserve-unknown-fields": True},
    object: {"x-kubernetes-preserve-unknown-fields": True},
}
_UNSUPPORTED: Final[dict[Any, str]] = {
    timedelta: "write Duration (Go notation such as 1h30m)",
    Decimal: "write Quantity (exact, such as 1.5)",
    complex: "write a string or a struct of numbers",
}
_RULES: Final = "x-kubernetes-validations"
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


@dataclass(frozen=True)
class Options:
    """Options of schema generation; the defaults are those of controller-gen."""

    allow_floats: bool = False
    embedded_object_meta: bool = False
    """Include name, namespace, labels, annotations and finalizers of embedded metadata."""
    max_description: int | None = None
    """Maximum length of descriptions, cut at the end of a sentence; 0 removes them."""


def schema_of(type_: Any, options: Options | None = None) -> Schema:
    """Return the schema of a type; raise `DeclarationError` with all its problems."""
    builder = SchemaBuilder(options)
    schema = builder.schema(type_)
    if builder.problems:
        raise DeclarationError(builder.problems)
    return schema


class SchemaBuilder:
    """Builds schemas and collects the problems of the types."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.problems: list[Problem] = []
        self.places: dict[str, str] = {}
        """`file:line` of every generated field, by path."""
        self._path: list[str] = []
        self._where = ""
        self._above: list[Any] = []
        self._float_allowed = self.options.allow_floats

    def schema(self, type_: Any) -> Schema:
        """Return the schema of a type, with descriptions shortened to the limit."""
        with self._at(getattr(type_, "__name__", str(type_)), self._where):
            schema = self._build(type_)
        if self.options.max_description is not None:
            limit_descriptions(schema, self.options.max_description)
        return schema

    def problem(self, text: str) -> None:
        """Add a problem at the current field."""
        self.problems.append(Problem(self._where, "".join(self._path), text))

    @contextmanager
    def _at(self, step: str, where: str) -> Iterator[None]:
        before = self._where
        self._path.append(step)
        self._where = where or before
        if where:
            self.places["".join(self._path)] = where
        try:
            yield
        finally:
            self._path.pop()
            self._where = before

    def _build(self, type_: Any) -> Schema:
        origin = get_origin(type_)
        if origin is Annotated:
            return self._annotated(type_)
        if type_ in _SCALARS:
            return _copy(_SCALARS[type_])
        if type_ is float:
            return self._float()
        if origin is Literal:
            return self._values(get_args(type_))
        if origin in (Union, types.UnionType):
            return self._union(get_args(type_))
        if origin in (list, tuple, set, frozenset) or type_ in (list, tuple, set, frozenset):
            return self._array(origin or type_, get_args(type_))
        if origin is dict or type_ is dict:
            return self._map(get_args(type_))
        if isinstance(type_, NewType):
            return self._build(type_.__supertype__)
        alias = getattr(type_, "__value__", None)
        if alias is not None and not isinstance(type_, type):
            return self._build(alias)
        named = origin or type_
        if isinstance(named, type):
            return self._class(type_, named)
        if isinstance(type_, TypeVar):
            return self._report_unsupported(
                f"{type_} is not bound: give the generic class its argument, as in Base[MySpec]"
            )
        return self._report_unsupported(
            f"{type_!r} has no schema; use a Struct, a list, a dict or a scalar type"
        )

    def _class(self, type_: Any, cls: type) -> Schema:
        if cls in _UNSUPPORTED:
            return self._report_unsupported(
                f"{cls.__name__} does not fit in an API object; {_UNSUPPORTED[cls]}"
            )
        own = getattr(cls, "__wire_schema__", None)
        if own is not None:
            return _copy(own)
        if issubclass(cls, enum.Enum):
            schema = self._values([member.value for member in cls])
            return self._described(schema, cls)
        if cls is ObjectMeta:
            expanded = self.options.embedded_object_meta
            return _copy(OBJECT_META_EXPANDED if expanded else OBJECT_META)
        definition = builtin_definition(cls)
        if definition is not None:
            try:
                return builtin_schema(definition, expand_meta=self.options.embedded_object_meta)
            except RecursiveSchema as error:
                return self._report_unsupported(f"recursive type: {error}; write RawObject instead")
        if issubclass(cls, msgspec.Struct):
            return self._struct(type_, cls)
        if any(cls is not base and issubclass(cls, base) for base in (str, int, bytes)):
            base = next(base for base in (str, int, bytes) if issubclass(cls, base))
            return dict(_SCALARS[base])
        return self._report_unsupported(
            f"{cls.__qualname__} has no schema; derive it from Struct, or give it __wire_schema__"
        )

    def _report_unsupported(self, text: str) -> Schema:
        self.problem(text)
        return {}

    def _float(self) -> Schema:
        if not self._float_allowed:
            self.problem(
                "float loses precision between languages; write Quantity or an int of a smaller unit, "
                "or allow floats (Number for one field, --allow-floats for all)"
            )
        return {"type": "number"}

    def _values(self, values: Iterable[Any]) -> Schema:
        plain = list(
            dict.fromkeys(value.value if isinstance(value, enum.Enum) else value for value in values)
        )
        kinds = {type(value) for value in plain if value is not None}
        if len(kinds) != 1 or not kinds <= _JSON_TYPES.keys():
            return self._report_unsupported(f"values {plain!r} must all be strings, or all be integers")
        if kinds == {float}:
            self._float()
        schema: Schema = {"enum": plain, "type": _JSON_TYPES[kinds.pop()]}
        if None in plain:
            schema["nullable"] = True
        return schema

    def _union(self, members: tuple[Any, ...]) -> Schema:
        rest = tuple(member for member in members if member is not type(None))
        if len(rest) == 1:
            return self._build(rest[0])
        if all(get_origin(member) is Literal for member in rest):
            return self._values([value for member in rest for value in get_args(member)])
        if set(rest) == {int, str}:
            return _copy(INT_OR_STRING)
        names = " | ".join(getattr(member, "__name__", str(member)) for member in rest)
        return self._report_unsupported(
            f"a schema cannot express {names}; write int | str, one Struct with optional fields and "
            "@mark(ExactlyOneOf(...)), or RawObject"
        )

    def _array(self, origin: type, args: tuple[Any, ...]) -> Schema:
        if origin is tuple and (len(args) != 2 or args[1] is not Ellipsis):
            return self._report_unsupported(
                "a tuple of fixed length has no schema; write list[T] or a Struct with named fields"
            )
        if not args:
            return self._report_unsupported(
                f"{origin.__name__} without an item type; write {origin.__name__}[str]"
            )
        with self._at("[]", ""):
            items = self._build(args[0])
        schema: Schema = {"items": items, "type": "array"}
        if origin in (set, frozenset):
            schema["x-kubernetes-list-type"] = "set"
            self._check_topology(schema)
        return schema

    def _map(self, args: tuple[Any, ...]) -> Schema:
        if not args:
            return self._report_unsupported("dict without types; write dict[str, T]")
        key = args[0]
        while get_origin(key) is Annotated or isinstance(key, NewType):
            key = get_args(key)[0] if get_origin(key) is Annotated else key.__supertype__
        if not (isinstance(key, type) and issubclass(key, str)) and get_origin(key) is not Literal:
            return self._report_unsupported(
                f"keys of a map are strings, not {getattr(key, '__name__', key)}; write dict[str, T]"
            )
        with self._at("{}", ""):
            return {"additionalProperties": self._build(args[1]), "type": "object"}

    def _annotated(self, type_: Any) -> Schema:
        before, self._float_allowed = (
            self._float_allowed,
            self._float_allowed or AllowFloat in type_.__metadata__,
        )
        schema = self._build(get_args(type_)[0])
        self._float_allowed = before
        markers = [self._marker(item) for item in type_.__metadata__]
        of_the_type = schema.pop(_RULES, [])
        self._apply([marker for marker in markers if marker is not None], schema)
        if of_the_type:
            schema.setdefault(_RULES, []).extend(of_the_type)
        return schema

    def _marker(self, item: Any) -> Marker | None:
        if isinstance(item, type) and issubclass(item, Marker):
            self.problem(f"{item.__name__} needs its arguments: write {item.__name__}(...)")
        return item if isinstance(item, Marker) else None

    def _apply(self, markers: list[Marker], schema: Schema) -> None:
        for marker in sorted(markers, key=lambda marker: not marker.first):
            try:
                marker.apply(schema)
            except MarkerError as error:
                self.problem(str(error))
            if isinstance(marker, ListType):
                self._check_topology(schema)
            if isinstance(marker, MaxDescription):
                limit_descriptions(schema, marker.length)

    def _check_topology(self, schema: Schema) -> None:
        for complaint in topology_complaints(schema):
            self.problem(complaint)

    def _struct(self, type_: Any, cls: type) -> Schema:
        if type_ in self._above:
            names = [getattr(item, "__name__", str(item)) for item in self._above]
            start = self._above.index(type_)
            cycle = " -> ".join([*names[start:], names[start]])
            return self._report_unsupported(
                f"recursive type: {cycle}; break the cycle, or write RawObject for the inner one"
            )
        self._above.append(type_)
        try:
            return self._properties(type_, cls)
        finally:
            self._above.pop()

    def _properties(self, type_: Any, cls: type) -> Schema:
        source = source_of(cls)
        try:
            fields = struct_fields(type_)
        except (NameError, TypeError, AttributeError) as error:
            with self._at("", source.where()):
                return self._report_unsupported(f"the types of {cls.__qualname__} cannot be read: {error}")
        properties: Schema = {}
        required: list[str] = []
        schema: Schema = {"properties": properties, "type": "object"}
        with self._at("", source.where()):
            self._apply(self._class_level(cls, fields), schema)
        kept: list[str] = []
        for field in fields:
            if _strip_none(field.type) is type(None):
                continue
            step = f".{field.wire_name}"
            with self._at(step, source_of(field.owner).where(field.name)):
                built = self._field(field, root=issubclass(cls, Object) and len(self._above) == 1)
                properties[field.wire_name] = built
                markers = _field_markers(field.type)
                if _is_required(field, markers):
                    required.append(field.wire_name)
                elif Immutable in markers:
                    kept.append(field.wire_name)
        if required or "required" in schema:
            schema["required"] = sorted({*required, *schema.get("required", ())})
        if kept:
            schema[_RULES] = [_stays_set(name) for name in kept] + schema.get(_RULES, [])
        return self._described(schema, cls)

    def _class_level(self, cls: type, fields: list[StructField]) -> list[Marker]:
        """Return the class markers with field names converted to wire names."""
        by_name = {field.name: field for field in fields}
        markers: list[Marker] = []
        ordered = sorted(class_markers(cls), key=lambda marker: getattr(marker, "rank", 0))
        for marker in ordered:
            if not isinstance(marker, OneOf):
                markers.append(marker)
                continue
            wire_names: list[str] = []
            for name in marker.fields:
                field = by_name.get(name)
                if field is None:
                    known = ", ".join(by_name)
                    self.problem(f"{type(marker).__name__}: no field {name!r}; the fields are: {known}")
                elif not field.has_default or Required in _field_markers(field.type):
                    self.problem(
                        f"{type(marker).__name__}: {name} is required; make it optional with | None = None"
                    )
                else:
                    wire_names.append(field.wire_name)
            if len(wire_names) == len(marker.fields):
                markers.append(marker.rule(wire_names))
        return markers

    def _field(self, field: StructField, *, root: bool) -> Schema:
        if field.owner is Object:
            return {"description": _TYPE_META[field.name], "type": "string"}
        if root and field.name == "metadata":
            metadata: Schema = {"type": "object"}
            self._apply(_field_markers(field.type), metadata)
            return metadata
        schema = self._build(field.type)
        if not field.has_default and _allows_none(field.type) and not schema.get("nullable"):
            self.problem(
                "may be None but has no default; write = None to make it optional, or mark it Nullable"
            )
        doc = source_of(field.owner).docs.get(field.name)
        explicit = _explicit_description(field.type)
        if explicit is not None:
            doc = explicit
        if doc is not None:
            schema.pop("description", None)
            if doc:
                schema["description"] = doc
        self._default(field, schema)
        for marker in _field_markers(field.type):
            if isinstance(marker, MaxDescription):
                limit_descriptions(schema, marker.length)
        return schema

    def _default(self, field: StructField, schema: Schema) -> None:
        markers = _field_markers(field.type)
        default = field.default
        if (
            "default" not in schema
            and field.has_default
            and default is not None
            and default is not msgspec.UNSET
            and not (isinstance(default, list | dict | set | frozenset) and not default)
            and field.owner is not MetaObject
            and Required not in markers
            and LocalDefault not in markers
        ):
            try:
                schema["default"] = to_plain(default)
            except (TypeError, NotImplementedError, ValueError) as error:
                self.problem(f"default {default!r} cannot be written as JSON: {error}")
        if "default" in schema:
            for complaint in default_complaints(schema, schema["default"]):
                self.problem(f"default {schema['default']!r} is rejected by its own schema: {complaint}")

    def _described(self, schema: Schema, cls: type) -> Schema:
        doc = vars(cls).get("__doc__")
        if doc and not (issubclass(cls, enum.Enum) and doc == enum.Enum.__doc__):
            schema["description"] = cleandoc(doc)
        return schema


_TYPE_META: Final = {
    "api_version": "API group and version of this representation of the object.",
    "kind": "Kind of the object.",
}


def _copy(schema: Schema) -> Schema:
    copied: Schema = copy_value(schema)
    return copied


def _stays_set(name: str) -> Schema:
    """Return the rule for the parent that rejects removal of an immutable field."""
    return {
        "message": f"field {name} is immutable once set",
        "rule": f"!has(oldSelf.{name}) || has(self.{name})",
    }


def _is_required(field: StructField, markers: list[Marker]) -> bool:
    return not field.has_default or Required in markers


def _field_markers(type_: Any) -> list[Marker]:
    """Return the markers of the field itself, also through `X | None` and aliases."""
    markers: list[Marker] = []
    while True:
        if get_origin(type_) is Annotated:
            markers.extend(item for item in type_.__metadata__ if isinstance(item, Marker))
            type_ = get_args(type_)[0]
            continue
        stripped = _strip_none(type_)
        if stripped is type_:
            return markers
        type_ = stripped


def _explicit_description(type_: Any) -> str | None:
    texts = [marker.text for marker in _field_markers(type_) if isinstance(marker, Description)]
    return texts[0] if texts else None


def _strip_none(type_: Any) -> Any:
    if get_origin(type_) in (Union, types.UnionType):
        rest = [member for member in get_args(type_) if member is not type(None)]
        if len(rest) == 1:
            return rest[0]
        if not rest:
            return type(None)
    return type_


def _allows_none(type_: Any) -> bool:
    if get_origin(type_) is Annotated:
        return _allows_none(get_args(type_)[0])
    return get_origin(type_) in (Union, types.UnionType) and type(None) in get_args(type_)


def default_complaints(schema: Schema, value: Any) -> list[str]:
    """Return why a schema rejects a default value; nested defaults of the schema are applied first."""
    node = Node(schema)
    filled = copy_value(value)
    unknown = [f"unknown field {path}" for path in prune(filled, node)]
    apply_defaults(filled, node)
    errors = validate_value(Compiled.of(node), filled)
    return unknown + [error.message.rpartition(": ")[2].replace(" in body ", " ").strip() for error in errors]
