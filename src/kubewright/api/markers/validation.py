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
            raise MarkerError(f"{type(marker).__name__}({value}) stands on an integer; write a whole number")
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
    """At least `value`."""

    keyword: ClassVar = "minimum"


class Gt(_Number):
    """More than `value`."""

    keyword: ClassVar = "minimum"

    def _write(self, schema: Schema) -> None:
        super()._write(schema)
        schema["exclusiveMinimum"] = True


class Le(_Number):
    """At most `value`."""

    keyword: ClassVar = "maximum"


class Lt(_Number):
    """Less than `value`."""

    keyword: ClassVar = "maximum"

    def _write(self, schema: Schema) -> None:
        super()._write(schema)
        schema["exclusiveMaximum"] = True


class MultipleOf(_Number):
    """A multiple of `value`."""

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
    """A string of at least so many characters."""

    targets: ClassVar = ("string",)
    keyword: ClassVar = "minLength"


class MaxLen(_Size):
    """A string of at most so many characters."""

    targets: ClassVar = ("string",)
    keyword: ClassVar = "maxLength"


class MinItems(_Size):
    """A list of at least so many items."""

    targets: ClassVar = ("array",)
    keyword: ClassVar = "minItems"


class MaxItems(_Size):
    """A list of at most so many items."""

    targets: ClassVar = ("array",)
    keyword: ClassVar = "maxItems"


class MinProperties(_Size):
    """A map or struct with at least so many entries."""

    targets: ClassVar = ("object",)
    keyword: ClassVar = "minProperties"
    on_class: ClassVar = True


class MaxProperties(_Size):
    """A map or struct with at most so many entries."""

    targets: ClassVar = ("object",)
    keyword: ClassVar = "maxProperties"
    on_class: ClassVar = True


@dataclass(frozen=True)
class Pattern(Marker):
    """A string that an RE2 regular expression finds a match in; anchor it with `^` and `$` for the whole."""

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
                f"Pattern({self.regex!r}) is not a regular expression of RE2 (no look-around, no "
                f"back-references): {why}"
            ) from None
        schema["pattern"] = self.regex


@dataclass(frozen=True)
class Format(Marker):
    """A named format such as `date-time`, `ipv4`, `uri`; unknown names are kept but not enforced."""

    name: str

    def _write(self, schema: Schema) -> None:
        schema["format"] = self.name


@dataclass(frozen=True)
class Enum(Marker):
    """One of these values. `Literal[...]` or an `enum.Enum` says the same and types the field as well."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def _write(self, schema: Schema) -> None:
        schema["enum"] = list(self.values)


@dataclass(frozen=True)
class TypeOverride(Marker):
    """Say the JSON type yourself, for a Python type that writes itself as something else."""

    type: Literal["string", "integer", "number", "boolean", "object", "array", ""]
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema["type"] = self.type


class _Nullable(Flag):
    keyword: ClassVar = "nullable"


class _UniqueItems(Flag):
    targets: ClassVar = ("array",)
    keyword: ClassVar = "uniqueItems"

    def _check(self, schema: Schema) -> None:
        raise MarkerError("API servers refuse uniqueItems: write ListSet (or set[...]) to forbid duplicates")


class _PreserveUnknownFields(Flag):
    keyword: ClassVar = "x-kubernetes-preserve-unknown-fields"
    on_class: ClassVar = True


class _EmbeddedResource(Flag):
    targets: ClassVar = ("object",)
    keyword: ClassVar = "x-kubernetes-embedded-resource"
    on_class: ClassVar = True


class _IntOrString(Flag):
    """Any value that is an integer or a string."""

    keyword: ClassVar = "x-kubernetes-int-or-string"
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema.pop("type", None)
        schema.pop("format", None)
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        schema[self.keyword] = True


class _Schemaless(Flag):
    """Leave the value without any schema but its other markers."""

    keyword: ClassVar = ""
    first: ClassVar = True

    def _write(self, schema: Schema) -> None:
        schema.clear()


class _Required(Flag):
    keyword: ClassVar = ""

    def _write(self, schema: Schema) -> None:
        """Requiredness belongs to the parent; the schema builder asks for this marker there."""


class _LocalDefault(_Required):
    pass


Nullable: Final = _Nullable()
"""`null` is a value of its own here, kept as such; without it `null` means absent."""
UniqueItems: Final = _UniqueItems()
"""Spelled for completeness: API servers refuse it. `ListSet` is what you want."""
PreserveUnknownFields: Final = _PreserveUnknownFields()
"""Do not prune what the schema does not name."""
EmbeddedResource: Final = _EmbeddedResource()
"""A whole object with `apiVersion`, `kind` and `metadata`."""
AsIntOrString: Final = _IntOrString()
"""Integer or string, for a type of your own; `int | str` says it for a field."""
Schemaless: Final = _Schemaless()
"""Emit nothing of the type; combine with `PreserveUnknownFields` or `TypeOverride` to stay structural."""
Required: Final = _Required()
"""The wire must carry the field although the class has a default for it."""
LocalDefault: Final = _LocalDefault()
"""The default is this program's own: the schema says optional, and the server fills in nothing."""


@dataclass(frozen=True)
class Default(Marker):
    """The value that the server fills in, where it is not the field's own default (plain JSON data)."""

    value: Any

    def __hash__(self) -> int:
        return hash(repr(self))

    def _write(self, schema: Schema) -> None:
        schema["default"] = self.value


Int32 = Annotated[int, Format("int32")]
"""An integer of 32 bits; plain `int` has 64."""
Int64 = Annotated[int, Format("int64")]
"""An integer of 64 bits, as plain `int`."""
Float = Annotated[float, Format("float")]
"""A number of single precision; fields of numbers with a fraction must be allowed explicitly."""
