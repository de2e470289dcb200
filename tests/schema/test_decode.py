"""Pruning, defaulting, nulls, metadata and embedded resources, as a server decodes a request."""

# ruff: noqa: E501 - tables of cases read better in one line

from __future__ import annotations

from typing import Any

import pytest

from kubewright.schema import MetadataError, SchemaVersion, duplicate_fields, prune
from kubewright.schema.structural import Node

STRING = {"type": "string"}


def version(**properties: Any) -> SchemaVersion:
    return SchemaVersion(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    )


def obj(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec}


def test_unknown_fields_are_pruned_and_returned() -> None:
    schema = version(
        a=STRING,
        list={"type": "array", "items": {"type": "object", "properties": {"x": STRING}}},
        map={"type": "object", "additionalProperties": {"type": "object", "properties": {"x": STRING}}},
        open={
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"closed": {"type": "object", "properties": {"x": STRING}}},
        },
    )
    body = obj(
        a="x",
        unknown=1,
        list=[{"x": "1", "y": 2}],
        map={"k": {"y": 1}},
        open={"any": {"thing": 1}, "closed": {"y": 1}},
    )
    body |= {"top": 1, "metadata": {"name": "n", "nosuch": True}}
    assert schema.decode(body) == [
        "metadata.nosuch",
        "spec.list[0].y",
        "spec.map.k.y",
        "spec.open.closed.y",
        "spec.unknown",
        "top",
    ]
    assert body == obj(a="x", list=[{"x": "1"}], map={"k": {}}, open={"any": {"thing": 1}, "closed": {}})


def test_defaults_apply_where_the_parent_exists() -> None:
    inner = {"type": "object", "properties": {"x": {**STRING, "default": "X"}}}
    schema = version(
        a={**STRING, "default": "A"},
        born={**inner, "default": {}},
        absent=inner,
        nullable={**STRING, "nullable": True, "default": "N"},
    )
    body = obj(a=None, nullable=None)
    assert schema.decode(body) == []
    assert body["spec"] == {"a": "A", "born": {"x": "X"}, "nullable": None}


def test_defaults_are_not_shared_between_objects() -> None:
    schema = version(m={"type": "object", "additionalProperties": STRING, "default": {"a": "1"}})
    first, second = obj(), obj()
    schema.default(first)
    schema.default(second)
    first["spec"]["m"]["b"] = "2"
    assert second["spec"]["m"] == {"a": "1"}


def test_non_nullable_nulls_are_dropped() -> None:
    schema = version(
        a=STRING, m={"type": "object", "additionalProperties": STRING}, l={"type": "array", "items": STRING}
    )
    body = obj(a=None, m={"k": None, "v": "x"}, l=[None])
    schema.decode(body)
    assert body["spec"] == {"m": {"v": "x"}, "l": [None]}
    assert [error.field for error in schema.validate(body).errors] == ["spec.l[0]"]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        (
            {"labels": {"a": 1}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            {"labels": []},
            "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        ({"name": True}, "json: cannot unmarshal bool into Go struct field ObjectMeta.name of type string"),
        (
            {"generation": 1.5},
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
        ),
        (
            {"ownerReferences": [{"name": 1}]},
            "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.name of type string",
        ),
        ("x", "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
    ],
)
def test_metadata_that_cannot_be_read_is_rejected_or_repaired(metadata: Any, text: str) -> None:
    schema = version()
    with pytest.raises(MetadataError) as caught:
        schema.decode({"metadata": metadata})
    assert str(caught.value) == text
    stored = {"metadata": metadata if isinstance(metadata, str) else {**metadata, "annotations": {"k": "v"}}}
    schema.decode(stored, repair=True)
    if isinstance(metadata, dict):
        assert stored["metadata"]["annotations"] == {"k": "v"}
        assert not metadata.keys() & stored["metadata"].keys()


def test_empty_and_unknown_metadata_fields_are_dropped() -> None:
    body = {
        "metadata": {
            "name": "n",
            "labels": {},
            "creationTimestamp": None,
            "managedFields": [{"foo": 1, "manager": "m"}],
        }
    }
    assert version().decode(body) == ["metadata.managedFields[0].foo"]
    assert body["metadata"] == {"name": "n", "managedFields": [{"manager": "m"}]}


EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def test_metadata_of_embedded_resources() -> None:
    schema = version(tpl=EMBEDDED)
    body = obj(tpl={"metadata": {"name": "x", "odd": 1, "labels": {"bad key": "v"}}, "free": True})
    assert schema.decode(body) == ["spec.tpl.metadata.odd"]
    errors = schema.validate(body).errors
    assert [(error.reason, error.field) for error in errors] == [
        ("FieldValueRequired", "spec.tpl.apiVersion"),
        ("FieldValueRequired", "spec.tpl.kind"),
        ("FieldValueInvalid", "spec.tpl.metadata.labels"),
    ]
    good = obj(tpl={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "free": True})
    assert schema.process(good) == ([], ([], []))


def test_embedded_metadata_that_cannot_be_read_is_rejected_with_its_place() -> None:
    with pytest.raises(MetadataError) as caught:
        version(tpl=EMBEDDED).decode(
            obj(tpl={"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}})
        )
    assert str(caught.value) == (
        'spec.tpl.metadata: Invalid value: {"labels":{"a":1}}: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


def test_a_map_of_anything_keeps_scalars_only() -> None:
    node = Node({"type": "object", "additionalProperties": True})
    value = {"a": 1, "b": {"c": 2}, "d": [{"e": 1}]}
    assert prune(value, node) == ["b.c", "d[0].e"]
    assert value == {"a": 1, "b": {}, "d": [{}]}


def test_duplicate_keys_are_found_in_the_bytes() -> None:
    assert duplicate_fields(b'{"spec": {"a": 1, "a": 2, "l": [{"b": 1, "b": 1, "b": 2}]}, "x": 1}') == [
        "spec.a",
        "spec.l[0].b",
    ]
    assert duplicate_fields(b'{"a": {"a": 1}}') == []
    with pytest.raises(ValueError, match="not JSON"):
        duplicate_fields(b"{")
    with pytest.raises(ValueError, match="not JSON"):
        duplicate_fields(b'{"a":' * 100_000)
