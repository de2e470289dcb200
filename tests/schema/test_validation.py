"""Validation keywords and their messages."""

# ruff: noqa: E501 - tables of cases read better in one line

from __future__ import annotations

from typing import Any

import pytest

from kubewright.schema import SchemaVersion

CASES: list[tuple[dict[str, Any], Any, list[tuple[str, str]]]] = [
    ({"type": "integer", "minimum": 2}, 1, [("spec.x", "Invalid value: 1: spec.x in body should be greater than or equal to 2")]),
    ({"type": "integer", "maximum": 5}, 6, [("spec.x", "Invalid value: 6: spec.x in body should be less than or equal to 5")]),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, [("spec.x", "Invalid value: 1: spec.x in body should be greater than 1")]),
    ({"type": "number", "maximum": 2.5, "exclusiveMaximum": True}, 2.5, [("spec.x", "Invalid value: 2.5: spec.x in body should be less than 2.5")]),
    ({"type": "integer", "multipleOf": 3}, 7, [("spec.x", "Invalid value: 7: spec.x in body should be a multiple of 3")]),
    ({"type": "integer", "format": "int32"}, 1 << 31, [("<nil>", 'Invalid value: "": Checked value must be of type integer with format int32 in spec.x')]),
    (
        {"type": "integer"},
        1.5,
        [
            ("spec.x", 'Invalid value: "number": spec.x in body must be of type integer: "number"'),
            ("<nil>", 'Invalid value: "": Checked value must be of type integer (default format) in spec.x'),
        ],
    ),
    ({"type": "integer"}, 2.0, []),
    ({"type": "number"}, 2, []),
    ({"type": "integer"}, "2", [("spec.x", 'Invalid value: "string": spec.x in body must be of type integer: "string"')]),
    ({"type": "object"}, [], [("spec.x", 'Invalid value: "array": spec.x in body must be of type object: "array"')]),
    ({"type": "string", "minLength": 2}, "é", [("spec.x", 'Invalid value: "é": spec.x in body should be at least 2 chars long')]),
    ({"type": "string", "maxLength": 1}, "ab", [("spec.x", "Too long: may not be more than 1 byte")]),
    ({"type": "string", "pattern": "^[a-z]+$"}, 'A"', [("spec.x", "Invalid value: \"A\\\"\": spec.x in body should match '^[a-z]+$'")]),
    ({"type": "string", "pattern": "b"}, "abc", []),
    ({"type": "string", "enum": ["one", "two"]}, "three", [("spec.x", 'Unsupported value: "three": supported values: "one", "two"')]),
    ({"type": "integer", "enum": [1, 2]}, 3, [("spec.x", 'Unsupported value: 3: supported values: "1", "2"')]),
    ({"type": "string", "format": "date-time"}, "yesterday", [("spec.x", 'Invalid value: "yesterday": spec.x in body must be of type date-time: "yesterday"')]),
    ({"type": "string", "format": "date-time"}, 7, [("spec.x", 'Invalid value: "int64": spec.x in body must be of type date-time: "int64"')]),
    ({"type": "string", "format": "no-such-format"}, "x", []),
    ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], [("spec.x", "Invalid value: 0: spec.x in body should have at least 1 items")]),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], [("spec.x", "Too many: 2: must have at most 1 item")]),
    ({"type": "array", "items": {"type": "string"}}, ["a", 1], [("spec.x[1]", 'Invalid value: "integer": spec.x[1] in body must be of type string: "integer"')]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}, {}, [("spec.x", "Invalid value: 0: spec.x in body should have at least 1 properties")]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1}, {"a": 1, "b": 2}, [("spec.x", "Too many: 2: must have at most 1 item")]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a.b": "x"}, [("spec.x.a.b", 'Invalid value: "string": spec.x.a.b in body must be of type integer: "string"')]),
    ({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}, {}, [("spec.x.k", "Required value")]),
    ({"x-kubernetes-int-or-string": True}, True, [("spec.x", 'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"')]),
    ({"x-kubernetes-int-or-string": True, "pattern": "%$"}, "5", [("spec.x", "Invalid value: \"5\": spec.x in body should match '%$'")]),
    ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", []),
    (
        {"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        "m",
        [
            ("<nil>", 'Invalid value: "": "spec.x" must validate at least one schema (anyOf)'),
            ("spec.x", "Invalid value: \"m\": spec.x in body should match '^a'"),
        ],
    ),
    (
        {"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]},
        "ab",
        [("<nil>", 'Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives')],
    ),
    (
        {"type": "string", "allOf": [{"maxLength": 3}, {"minLength": 1}]},
        "abcd",
        [
            ("spec.x", "Too long: may not be more than 3 bytes"),
            ("<nil>", 'Invalid value: "": "spec.x" must validate all the schemas (allOf)'),
        ],
    ),
    ({"type": "string", "not": {"enum": ["x"]}}, "x", [("<nil>", 'Invalid value: "": "spec.x" must not validate the schema (not)')]),
    ({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, ["a", "b", "a", "a"], [("spec.x[2]", 'Duplicate value: "a"')]),
    (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n", "p"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "p": {"type": "integer"}}},
        },
        [{"n": "a", "p": 1}, {"n": "a"}, {"n": "a", "p": 1}],
        [("spec.x[2]", 'Duplicate value: {"n":"a","p":1}')],
    ),
    ({"type": "string", "nullable": True}, None, []),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expected"), CASES)
def test_keyword(schema: dict[str, Any], value: Any, expected: list[tuple[str, str]]) -> None:
    version = SchemaVersion(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}
    )
    errors = version.validate({"spec": {"x": value}}).errors
    assert [(error.field, error.message) for error in errors] == expected


def test_error_types() -> None:
    properties = {
        "a": {"type": "string"},
        "b": {"type": "string", "maxLength": 1},
        "c": {"type": "string", "enum": ["x"]},
        "d": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
        "e": {"type": "integer", "maximum": 0},
    }
    version = SchemaVersion({"type": "object", "required": ["f"], "properties": properties})
    errors = version.validate({"a": 1, "b": "xx", "c": "y", "d": ["z"], "e": 1}).errors
    assert [error.reason for error in errors] == [
        "FieldValueTypeInvalid",
        "FieldValueTooLong",
        "FieldValueNotSupported",
        "FieldValueTooMany",
        "FieldValueInvalid",
        "FieldValueRequired",
    ]


def test_a_status_is_validated_alone() -> None:
    status = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}}
    spec = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}}}
    version = SchemaVersion({"type": "object", "properties": {"spec": spec, "status": status}})
    errors = version.validate_status(
        {"spec": {"a": "long"}, "status": {"n": 10}}, {"spec": {"a": "long"}}
    ).errors
    assert [str(error) for error in errors] == [
        "status.n: Invalid value: 10: n in body should be less than or equal to 9"
    ]


def test_unchanged_invalid_values_are_accepted() -> None:
    item = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 1}},
    }
    properties = {
        "a": {"type": "string", "maxLength": 3},
        "b": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": item,
        },
    }
    version = SchemaVersion(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    )
    old = {
        "spec": {
            "a": "toolong",
            "b": "x",
            "list": ["toolong"],
            "keyed": [{"n": "p", "v": 5}, {"n": "q", "v": 0}],
        }
    }

    def fields(**changes: Any) -> list[str]:
        return [error.field for error in version.validate({"spec": {**old["spec"], **changes}}, old).errors]

    assert fields(b="y") == []
    assert fields(a="alsotoolong") == ["spec.a"]
    assert fields(list=["toolong", "b"]) == ["spec.list[0]"]
    assert fields(keyed=[{"n": "q", "v": 0}, {"n": "p", "v": 5}]) == []
    assert fields(keyed=[{"n": "new", "v": 6}, {"n": "p", "v": 5}]) == ["spec.keyed[0].v"]


def test_existing_duplicates_are_accepted() -> None:
    tags = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    version = SchemaVersion({"type": "object", "properties": {"tags": tags}})
    assert version.validate({"tags": ["a", "a", "b"]}, {"tags": ["a", "a"]}).errors == []
    assert version.validate({"tags": ["a", "a"]}, {"tags": ["a"]}).errors != []


def test_a_status_update_reports_the_duplicates_it_adds() -> None:
    unique = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    part = {"type": "object", "properties": {"names": unique}}
    version = SchemaVersion({"type": "object", "properties": {"spec": part, "status": part}})

    def errors(old_spec: list[str], old: list[str], new: list[str]) -> list[str]:
        spec = {"names": old_spec}
        live = {"spec": spec, "status": {"names": old}}
        found = version.validate_status({"spec": spec, "status": {"names": new}}, live).errors
        return [error.field for error in found]

    assert errors([], ["a"], ["a", "b"]) == []
    assert errors([], ["a"], ["a", "a"]) == ["status.names[1]"]
    assert errors([], ["a", "a"], ["b", "b"]) == []
    assert errors(["c", "c"], ["a"], ["b", "b"]) == []
    assert errors(["c", "c"], ["a"], ["b"]) == []
