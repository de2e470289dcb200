"""Markers that become CEL validation rules: `Cel`, `Immutable` and unions of fields."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, Literal

from kubewright.api.declaring.keywords import explain_keywords

from .base import Flag, Marker, MarkerError, Schema

Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


@explain_keywords
@dataclass(frozen=True)
class Cel(Marker):
    """A CEL rule: `self` is the value, `oldSelf` the value before an update."""

    rule: str
    _: KW_ONLY
    message: str | None = None
    message_expression: str | None = None
    reason: Reason | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None
    on_class: ClassVar = True

    def _write(self, schema: Schema) -> None:
        if self.message is not None and "\n" in self.message:
            raise MarkerError("the message of a Cel rule must be one line")
        if self.message is None and "\n" in self.rule:
            raise MarkerError("a Cel rule of several lines requires message=")
        rule: Schema = {}
        for key, value in (
            ("fieldPath", self.field_path),
            ("message", self.message),
            ("messageExpression", self.message_expression),
            ("optionalOldSelf", self.optional_old_self),
            ("reason", self.reason),
            ("rule", self.rule),
        ):
            if value is not None:
                rule[key] = value
        schema.setdefault("x-kubernetes-validations", []).append(rule)


class _Immutable(Flag):
    keyword: ClassVar = "x-kubernetes-validations"
    on_class: ClassVar = True

    def _write(self, schema: Schema) -> None:
        Cel("self == oldSelf", message="field is immutable").apply(schema)


Immutable: Final = _Immutable()
"""The value cannot be changed; an optional field can be set once."""


@dataclass(frozen=True)
class OneOf(Marker):
    """Base of the union markers; `fields` are names of Python attributes."""

    fields: tuple[str, ...]
    targets: ClassVar = ("object",)
    on_class: ClassVar = True
    comparison: ClassVar[str]
    message: ClassVar[str]
    rank: ClassVar[int]
    """Order of union rules, which follow all other rules."""

    def __init__(self, *fields: str) -> None:
        if len(set(fields)) < 2:
            raise MarkerError(f"{type(self).__name__} requires the names of at least two different fields")
        object.__setattr__(self, "fields", fields)

    def rule(self, wire_names: list[str]) -> Cel:
        """Return the CEL rule for the JSON names of the fields."""
        tests = [f"has(self.{name})" for name in wire_names]
        if self.comparison:
            expression = "+".join(f"({test}?1:0)" for test in tests) + self.comparison
        else:
            expression = "||".join(tests)
        return Cel(expression, message=self.message.format(" ".join(wire_names)))

    def _write(self, schema: Schema) -> None:
        self.rule(list(self.fields)).apply(schema)


class AtMostOneOf(OneOf):
    """At most one of the fields is set."""

    comparison: ClassVar = " <= 1"
    rank: ClassVar = 1
    message: ClassVar = "at most one of the fields in [{}] may be set"


class ExactlyOneOf(OneOf):
    """Exactly one of the fields is set."""

    comparison: ClassVar = " == 1"
    rank: ClassVar = 2
    message: ClassVar = "exactly one of the fields in [{}] must be set"


class AtLeastOneOf(OneOf):
    """At least one of the fields is set."""

    comparison: ClassVar = ""
    rank: ClassVar = 3
    message: ClassVar = "at least one of the fields in [{}] must be set"
