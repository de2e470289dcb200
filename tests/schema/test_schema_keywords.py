"""Markers for keywords without a Python equivalent: `SchemaKeywords`, `Integer`, `Number`."""

from __future__ import annotations

from typing import Annotated

import pytest

from kubewright.api import (
    CustomResource,
    Integer,
    MarkerError,
    MaxLen,
    Number,
    ObjectMeta,
    Required,
    SchemaKeywords,
    Spec,
    Struct,
    field,
    mark,
    resource,
)
from kubewright.manifests import DeclarationError, crd
from kubewright.schema.generation.from_types import schema_of


@mark(SchemaKeywords({"oneOf": [{"required": ["host"]}, {"required": ["url"]}], "required": ["extra"]}))
class Target(Struct):
    host: Annotated[str | None, SchemaKeywords({"not": {"enum": ["localhost"]}}), MaxLen(63)] = None
    url: str | None = None
    port: Integer
    weight: Number = 0.5


class ProbeSpec(Spec):
    target: Target


@resource(group="example.com", version="v1", list_kind="Probes")
class Probe(CustomResource[ProbeSpec, None]):
    metadata: Annotated[
        ObjectMeta, SchemaKeywords({"properties": {"name": {"type": "string", "maxLength": 8}}}), Required
    ] = field(default_factory=ObjectMeta)


def test_keywords_are_written_as_they_are() -> None:
    schema = schema_of(Target)
    assert schema["oneOf"] == [{"required": ["host"]}, {"required": ["url"]}]
    assert schema["properties"]["host"] == {
        "type": "string",
        "not": {"enum": ["localhost"]},
        "maxLength": 63,
    }


def test_required_fields_are_added_to_those_of_the_class() -> None:
    assert schema_of(Target)["required"] == ["extra", "port"]


def test_integer_has_no_format_and_number_is_allowed() -> None:
    properties = schema_of(Target)["properties"]
    assert properties["port"] == {"type": "integer"}
    assert properties["weight"] == {"type": "number", "default": 0.5}


def test_float_without_number_is_rejected() -> None:
    class Other(Struct):
        weight: float

    with pytest.raises(DeclarationError, match="Number for one field"):
        schema_of(Other)


def test_unknown_keywords_are_rejected() -> None:
    with pytest.raises(MarkerError, match=r"'oneof' is not a keyword .* did you mean 'oneOf'"):
        SchemaKeywords({"oneof": []})


def test_metadata_can_be_restricted_and_required() -> None:
    manifest = crd(Probe)
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["metadata"]["properties"]["name"]["maxLength"] == 8
    assert schema["required"] == ["metadata", "spec"]
    assert manifest["spec"]["names"]["listKind"] == "Probes"
