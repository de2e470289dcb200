from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar

import pytest
from msgspec import field

from kubewright.api.apiextensions.v1 import JSONSchemaProps
from kubewright.api.core.v1 import PodTemplateSpec, ResourceRequirements
from kubewright.api.markers import (
    AsIntOrString,
    Cel,
    Default,
    Description,
    EmbeddedResource,
    Float,
    Ge,
    Gt,
    Immutable,
    Int32,
    Int64,
    ListSet,
    LocalDefault,
    Lt,
    MaxDescription,
    MaxItems,
    MinLen,
    Nullable,
    Required,
    mark,
)
from kubewright.api.meta import Condition, CustomResource, LabelSelector, ObjectMeta
from kubewright.api.objects import Spec, Status, Struct
from kubewright.api.values.int_or_string import IntOrString
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.raw_object import RawObject
from kubewright.api.values.times import Duration, MicroTime, Time
from kubewright.schema.generation.errors import DeclarationError
from kubewright.schema.generation.from_types import Options, schema_of
from kubewright.schema.generation.source import shorten


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Name = Annotated[str, MinLen(1)]
UserId = NewType("UserId", str)
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer", "format": "int64"}),
        (Int32, {"type": "integer", "format": "int32"}),
        (Int64, {"type": "integer", "format": "int64"}),
        (bytes, {"type": "string", "format": "byte"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (Time, {"type": "string", "format": "date-time"}),
        (MicroTime, {"type": "string", "format": "date-time"}),
        (Duration, {"type": "string"}),
        (IntOrString, INT_OR_STRING),
        (int | str | None, INT_OR_STRING),
        (Annotated[str, AsIntOrString], INT_OR_STRING),
        (RawObject, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (ObjectMeta, {"type": "object"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (UserId, {"type": "string"}),
        (list[Name], {"type": "array", "items": {"type": "string", "minLength": 1}}),
        (tuple[bool, ...], {"type": "array", "items": {"type": "boolean"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (
            Annotated[int, Gt(1), Lt(9)],
            {
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": True,
            },
        ),
        (
            Annotated[list[str], MaxItems(3), ListSet],
            {"type": "array", "items": {"type": "string"}, "maxItems": 3, "x-kubernetes-list-type": "set"},
        ),
    ],
)
def test_a_type(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


def test_a_quantity_has_the_pattern_of_quantities() -> None:
    schema = schema_of(Quantity)
    assert schema["x-kubernetes-int-or-string"] is True
    assert schema["pattern"].startswith("^")


class Nested(Struct):
    """The nested part."""

    size: int = 3
    name: str | None = None


class FieldsSpec(Spec):
    required: str
    optional: str | None = None
    defaulted: str = "x"
    server: Annotated[str, Default("y")] | None = None
    local: Annotated[str, LocalDefault] = "z"
    demanded: Annotated[str, Required] = ""
    nullable: Annotated[str | None, Nullable] = None
    empty: list[str] = field(default_factory=list)
    filled: list[str] = field(default_factory=lambda: ["a"])
    nested: Nested = field(default_factory=Nested)
    other: Nested = field(default_factory=lambda: Nested(name="n"))
    """What the field says."""
    renamed: str | None = field(default=None, name="odd-name")
    undocumented: Annotated[Nested, Description("")] | None = None


def test_requiredness_and_defaults_follow_the_fields() -> None:
    schema = schema_of(FieldsSpec)
    properties = schema["properties"]
    assert schema["required"] == ["demanded", "required"]
    defaults = {name: child["default"] for name, child in properties.items() if "default" in child}
    assert defaults == {
        "defaulted": "x",
        "server": "y",
        "filled": ["a"],
        "nested": {},
        "other": {"name": "n"},
    }
    assert [name for name, child in properties.items() if child.get("nullable")] == ["nullable"]
    assert "odd-name" in properties


def test_a_field_is_described_before_its_type() -> None:
    properties = schema_of(FieldsSpec)["properties"]
    assert properties["nested"]["description"] == "The nested part."
    assert properties["other"]["description"] == "What the field says."
    assert "description" not in properties["undocumented"]


ItemT = TypeVar("ItemT")


class Box(Struct, Generic[ItemT]):
    item: ItemT
    more: list[ItemT] | None = None


class Boxes(Struct):
    text: Box[str]
    number: Box[Int32] | None = None


def test_generic_structs_take_their_arguments() -> None:
    properties = schema_of(Boxes)["properties"]
    assert properties["text"]["properties"]["item"] == {"type": "string"}
    assert properties["number"]["properties"]["more"]["items"] == {"type": "integer", "format": "int32"}


class BasedSpec(Nested, Spec):
    extra: bool


class BasedStatus(Status):
    seen: Annotated[list[Condition], MaxItems(8)] | None = None


class Based(CustomResource[BasedSpec, BasedStatus]):
    """A kind."""


def test_a_kind_has_type_and_metadata_spec_and_status() -> None:
    schema = schema_of(Based)
    assert schema["description"] == "A kind."
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["required"] == ["spec"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["spec"]["properties"].keys() == {"size", "name", "extra"}
    condition = schema["properties"]["status"]["properties"]["seen"]["items"]
    assert condition["properties"]["status"]["enum"] == ["True", "False", "Unknown"]
    assert condition["required"] == ["lastTransitionTime", "message", "reason", "status", "type"]


class Holder(Struct):
    held: Annotated[Based, EmbeddedResource] | None = None


def test_embedded_kind_has_no_defaults() -> None:
    held = schema_of(Holder)["properties"]["held"]
    assert held["x-kubernetes-embedded-resource"] is True
    assert held["properties"]["metadata"] == {"type": "object"}
    assert held["properties"]["kind"].keys() == {"description", "type"}
    assert held["required"] == ["spec"]


class Frozen(Struct):
    once: Annotated[str, Immutable] | None = None
    always: Annotated[str, Immutable]


def test_an_immutable_optional_field_cannot_be_unset() -> None:
    schema = schema_of(Frozen)
    own = [{"message": "field is immutable", "rule": "self == oldSelf"}]
    assert schema["properties"]["once"]["x-kubernetes-validations"] == own
    assert schema["properties"]["always"]["x-kubernetes-validations"] == own
    assert schema["x-kubernetes-validations"] == [
        {"message": "field once is immutable once set", "rule": "!has(oldSelf.once) || has(self.once)"}
    ]


@mark(Cel("self.a > 0"))
class RuledBase(Struct):
    a: int


@mark(Cel("self.b > 0"))
class Ruled(RuledBase):
    b: int


class Ruling(Struct):
    ruled: Annotated[Ruled, Cel("true")]


def test_order_of_rules_of_fields_bases_and_class() -> None:
    rules = schema_of(Ruling)["properties"]["ruled"]["x-kubernetes-validations"]
    assert [rule["rule"] for rule in rules] == ["true", "self.a > 0", "self.b > 0"]


def test_floats_only_when_allowed() -> None:
    with pytest.raises(DeclarationError, match="loses precision"):
        schema_of(float)
    assert schema_of(float, Options(allow_floats=True)) == {"type": "number"}
    assert schema_of(Float, Options(allow_floats=True)) == {"type": "number", "format": "float"}
    assert schema_of(Annotated[float, Ge(0.5)], Options(allow_floats=True)) == {
        "type": "number",
        "minimum": 0.5,
    }


class Tree(Struct):
    value: int
    left: Tree | None = None


class Forest(Struct):
    trees: dict[str, list[Tree]]


def test_a_recursive_type_shows_its_cycle() -> None:
    with pytest.raises(DeclarationError) as caught:
        schema_of(Forest)
    (problem,) = caught.value.problems
    assert "Tree -> Tree" in problem.text
    assert problem.path == "Forest.trees{}[].left"
    assert problem.where.startswith(__file__)


def test_a_recursive_built_in_type_is_rejected() -> None:
    with pytest.raises(DeclarationError, match="recursive type: JSONSchemaProps"):
        schema_of(JSONSchemaProps)


def test_using_a_type_twice_is_not_a_cycle() -> None:
    class Pair(Struct):
        one: Nested
        two: Nested

    assert schema_of(Pair)["properties"]["one"] == schema_of(Pair)["properties"]["two"]


def test_built_in_types_are_written_out() -> None:
    resources = schema_of(ResourceRequirements)["properties"]
    assert resources["limits"]["additionalProperties"] == schema_of(Quantity)
    assert resources["claims"]["x-kubernetes-list-map-keys"] == ["name"]
    selector = schema_of(LabelSelector)
    assert selector["x-kubernetes-map-type"] == "atomic"
    assert selector["properties"]["matchExpressions"]["x-kubernetes-list-type"] == "atomic"
    expanded = schema_of(PodTemplateSpec, Options(embedded_object_meta=True))
    assert "labels" in expanded["properties"]["metadata"]["properties"]


def test_schemas_are_not_shared() -> None:
    schema_of(PodTemplateSpec)["properties"].clear()
    schema_of(Quantity).clear()
    schema_of(Condition)["properties"].clear()
    assert schema_of(PodTemplateSpec)["properties"]
    assert schema_of(Quantity)
    assert schema_of(Condition)["properties"]


def test_a_custom_type_declares_its_schema() -> None:
    class Colour:
        __wire_schema__ = {"type": "string", "maxLength": 7}

    assert schema_of(Annotated[Colour, MinLen(7)]) == {"type": "string", "minLength": 7, "maxLength": 7}
    assert schema_of(Colour) == {"type": "string", "maxLength": 7}


class Described(Struct):
    """A first sentence. A second one that is longer."""

    part: Annotated[Nested, MaxDescription(5)]
    """Ninety words. Or fewer."""


def test_descriptions_are_cut_per_field_and_globally() -> None:
    schema = schema_of(Described, Options(max_description=20))
    assert schema["description"] == "A first sentence."
    assert len(schema["properties"]["part"]["description"]) <= 5
    assert "description" not in schema_of(Described, Options(max_description=0))


@pytest.mark.parametrize(
    ("text", "length", "short"),
    [
        ("One. Two.", 9, "One. Two."),
        ("One. Two.", 8, "One."),
        ("One two three", 8, "One two"),
        ("Onetwothree", 4, "Onet"),
        ("v1.2 is out. Yes", 13, "v1.2 is out."),
        ("One. Two.", 0, ""),
    ],
)
def test_shortening(text: str, length: int, short: str) -> None:
    assert shorten(text, length) == short
