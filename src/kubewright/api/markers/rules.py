"""Markers that become CEL rules: rules themselves, what never changes, how many of some fields are set."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, Literal

from kubewright.api.keywords import explain_keywords

from .base import Flag, Marker, MarkerError, Schema

Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


@explain_keywords
@dataclass(frozen=True)
class Cel(Marker):
    """A rule in CEL: `self` is the value here, `oldSelf` the value before an update."""

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
            raise MarkerError("the message of a Cel rule must stay on one line")
        if self.message is None and "\n" in self.rule:
            raise MarkerError("a Cel rule of several lines needs a message=")
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
"""The value never changes; an optional field may still be set once, and is then kept."""


@dataclass(frozen=True)
class OneOf(Marker):
    """How many of some optional fields may be set. Names are those of the Python fields."""

    fields: tuple[str, ...]
    targets: ClassVar = ("object",)
    on_class: ClassVar = True
    comparison: ClassVar[str]
    message: ClassVar[str]
    rank: ClassVar[int]
    """Rules of these families stand after all others, in this order."""

    def __init__(self, *fields: str) -> None:
        if len(set(fields)) < 2:
            raise MarkerError(f"{type(self).__name__} needs the names of at least two different fields")
        object.__setattr__(self, "fields", fields)

    def rule(self, wire_names: list[str]) -> Cel:
        """The CEL rule over the names that the fields have on the wire."""
        tests = [f"has(self.{name})" for name in wire_names]
        if self.comparison:
            expression = "+".join(f"({test}?1:0)" for test in tests) + self.comparison
        else:
            expression = "||".join(tests)
        return Cel(expression, message=self.message.format(" ".join(wire_names)))

    def _write(self, schema: Schema) -> None:
        self.rule(list(self.fields)).apply(schema)


class AtMostOneOf(OneOf):
    """None or one of the fields."""

    comparison: ClassVar = " <= 1"
    rank: ClassVar = 1
    message: ClassVar = "at most one of the fields in [{}] may be set"


class ExactlyOneOf(OneOf):
    """One of the fields."""

    comparison: ClassVar = " == 1"
    rank: ClassVar = 2
    message: ClassVar = "exactly one of the fields in [{}] must be set"


class AtLeastOneOf(OneOf):
    """One or more of the fields."""

    comparison: ClassVar = ""
    rank: ClassVar = 3
    message: ClassVar = "at least one of the fields in [{}] must be set"
