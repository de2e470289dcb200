"""Markers that restrict or default a value: bounds, lengths, patterns, enums, nullability, requiredness."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from .base import Flag, Marker, MarkerError, Schema

NUMERIC: Final = ("integer", "number")


def _integral(marker: Marker, value: float, schema: Schema) -> int | float:
    if schema.get("type") == "integer":
        if not math.isfinite(value) or value != int(value):
            raise MarkerError(
                f"{type(marker).__name__}({value}) is applied to an integer; write a whole number"
            )
        return int(value)
    return value


@dataclass(frozen=True)
class _Number(Marker):
    """A bound on a number."""

    value: float
    targets: ClassVar = NUMERIC
    keyword: ClassVar[str]

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise MarkerError(f"{type(self).__name__}({self.value!r}): write a number")

    def _write(self, schema: Schema) -> None:
        schema[self.keyword] = _integral(self, self.value, schema)


class Ge(_Number):
    """The number is at least `value`."""

    keyword: ClassVar = "minimum"


class Gt(_Number):
    """The number is greater than `value`."""

    keyword: ClassVar = "minimum"

    def _write(self, schema: Schema) -> None:
        super()._write(schema)
        schema["exclusiveMinimum"] = True


class Le(_Number):
    """The number is at most `value`."""

    keyword: ClassVar = "maximum"


class Lt(_Number):
    """The number is less than `value`."""

    keyword: ClassVar = "maximum"

    def _write(self, schema: Schema) -> None:
        super()._write(schema)
        schema["exclusiveMaximum"] = True


class MultipleOf(_Number):
    """The number is a multiple of `value`."""

    keyword: ClassVar = "multipleOf"


@dataclass(frozen=True)
class _Size(Marker):
    """A bound on a length or a count."""

    value: int
    keyword: ClassVar[str]

    def __post_init__(self) -> None:
        if type(self.value) is not int or self.value < 0:
            raise MarkerError(f"{type(self).__name__}({self.value!r}): write a whole number of at least 0")

    def _write(self, schema: Schema) -> None:
        schema[self.keyword] = self.value


class MinLen(_Size):
    """The string has at least `value` characters."""

    targets: ClassVar = ("string",)
    keyword: ClassVar = "minLength"


class MaxLen(_Size):
    """The string has at most `value` characters."""

    targets: ClassVar = ("string",)
    keyword: ClassVar = "maxLength"


class MinItems(_Size):
    """The list has at least `value` items."""

    targets: ClassVar = ("array",)
    keyword: ClassVar = "minItems"


class MaxItems(_Size):
    """The list has at most `value` items."""

    targets: ClassVar = ("array",)
    keyword: ClassVar = "maxItems"


class MinProperties(_Size):
    """The map or struct has at least `value` entries."""

    targets: ClassVar = ("object",)
    keyword: ClassVar = "minProperties"
    on_class: ClassVar = True


class MaxProperties(_Size):
    """The map or struct has at most `value` entries."""

    targets: ClassVar = ("object",)
    keyword: ClassVar = "maxProperties"
    on_class: ClassVar = True


@dataclass(frozen=True)
class Pattern(Marker):
    """The string matches an RE2 regular expression; anchor it with `^` and `$` to match all of it."""

    regex: str
    targets: ClassVar = ("string",)

    def _write(self, schema: Schema) -> None:
        import re2

        quiet = re2.Options()
        quiet.log_errors = False
        try:
            re2.compile(self.regex, quiet)
        except re2.error as error:
            why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
            raise MarkerError(
                f"Pattern({self.regex!r}) is not a valid RE2 regular expression (no look-around, no "
                f"back-references): {why}"
            ) from None
        schema["pattern"] = self.regex


@dataclass(frozen=True)
class Format(Marker):
    """A format such as `date-time`, `ipv4` or `uri`; unknown formats are not validated.

    An empty name removes the format of the type: `Integer` is an `int` without the format int64.
    """

    name: str

    def _write(self, schema: Schema) -> None:
        if self.name:
            schema["format"] = self.name
        else:
            schema.pop("format", None)


@dataclass(frozen=True)
class Enum(Marker):
    """The value is one of these; `Literal[...]` or an `enum.Enum` also types the field."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def _write(self, schema: Schema) -> None:
        schema["enum"] = list(self.values)


@dataclass(frozen=True)
class TypeOverride(Marker):
    """Set the JSON type, for a Python type with an encoding of its own."""

    type: Literal["string", "integer", "number", "boolean", "object", "array", ""]
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema["type"] = self.type


class _Nullable(Flag):
    keyword: ClassVar = "nullable"
    presence_flags: ClassVar = ("nullable",)


class _UniqueItems(Flag):
    targets: ClassVar = ("array",)
    keyword: ClassVar = "uniqueItems"

    def _check(self, schema: Schema) -> None:
        raise MarkerError("API servers reject uniqueItems; write ListSet or set[...] to forbid duplicates")


class _PreserveUnknownFields(Flag):
    keyword: ClassVar = "x-kubernetes-preserve-unknown-fields"
    on_class: ClassVar = True


class _EmbeddedResource(Flag):
    targets: ClassVar = ("object",)
    keyword: ClassVar = "x-kubernetes-embedded-resource"
    on_class: ClassVar = True


class _IntOrString(Flag):
    """The value is an integer or a string."""

    keyword: ClassVar = "x-kubernetes-int-or-string"
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema.pop("type", None)
        schema.pop("format", None)
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        schema[self.keyword] = True


class _Schemaless(Flag):
    """The type adds nothing to the schema."""

    keyword: ClassVar = ""
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema.clear()


class _FieldFlag(Flag):
    """A flag that the schema builder reads; it writes nothing into the schema of the field."""

    keyword: ClassVar = ""

    def _write(self, schema: Schema) -> None:
        """Do nothing."""


class _Required(_FieldFlag):
    presence_flags: ClassVar = ("required",)


class _LocalDefault(_FieldFlag):
    pass


class _AllowFloat(_FieldFlag):
    pass


Nullable: Final = _Nullable()
"""`null` is allowed and stored; without this marker `null` means absent."""
UniqueItems: Final = _UniqueItems()
"""Rejected by API servers; use `ListSet`."""
PreserveUnknownFields: Final = _PreserveUnknownFields()
"""Fields without a schema are not pruned."""
EmbeddedResource: Final = _EmbeddedResource()
"""The value is a complete object with `apiVersion`, `kind` and `metadata`."""
AsIntOrString: Final = _IntOrString()
"""An integer or string, for a custom type; for a field, write `int | str`."""
Schemaless: Final = _Schemaless()
"""Omit the schema of the type; combine with `PreserveUnknownFields` or `TypeOverride`."""
Required: Final = _Required()
"""The field is required in the schema although it has a default in Python."""
LocalDefault: Final = _LocalDefault()
"""The default is used in Python only; in the schema the field is optional without a default."""
AllowFloat: Final = _AllowFloat()
"""Allow `float` for this field without allowing it for the whole project; see `Number`."""


@dataclass(frozen=True)
class Default(Marker):
    """The default in the schema, as plain JSON data, if it differs from the default in Python."""

    value: Any

    def __hash__(self) -> int:
        return hash(repr(self))

    def _write(self, schema: Schema) -> None:
        schema["default"] = self.value


Int32 = Annotated[int, Format("int32")]
"""A 32-bit integer; `int` is a 64-bit integer."""
Int64 = Annotated[int, Format("int64")]
"""A 64-bit integer, the same as `int`."""
Float = Annotated[float, Format("float")]
"""A single-precision float; floats must be allowed explicitly."""
Integer = Annotated[int, Format("")]
"""An integer without a format, as in schemas that were not generated from Go types."""
Number = Annotated[float, AllowFloat]
"""A number in a field that is allowed to be a float; prefer `Quantity` in new types."""
