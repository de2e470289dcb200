"""Properties of all schemas and objects, and expensive input."""

from __future__ import annotations

import copy
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubewright.schema import (
    Compiled,
    Node,
    SchemaVersion,
    TooDeepError,
    apply_defaults,
    drop_nulls,
    prune,
    validate_lists,
    validate_value,
)
from kubewright.schema.validation.compiled import INVALID, REPEATED, UNFILLED, UNKNOWN
from kubewright.schema.validation.fast_check import check_of

NAMES = st.sampled_from(["a", "b", "c", "kind", "metadata"])


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("string")},
            optional={
                "maxLength": st.integers(0, 3),
                "minLength": st.integers(0, 2),
                "pattern": st.sampled_from(["^a", "b$", "^[a-c]+$"]),
                "enum": st.lists(st.sampled_from(["a", "b", "abc"]), min_size=1, unique=True),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["integer", "number"])},
            optional={
                "maximum": st.integers(-2, 4),
                "minimum": st.integers(-2, 4),
                "multipleOf": st.sampled_from([1, 2]),
                "enum": st.lists(st.integers(0, 3), min_size=1, unique=True),
            },
        ),
        st.just({"type": "boolean"}),
        st.just({"x-kubernetes-int-or-string": True}),
        st.just({"x-kubernetes-preserve-unknown-fields": True}),
    )


def containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={
                "required": st.lists(NAMES, max_size=2, unique=True),
                "x-kubernetes-preserve-unknown-fields": st.just(True),
                "maxProperties": st.integers(0, 3),
                "minProperties": st.integers(0, 2),
                "nullable": st.just(True),
            },
        ),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner}),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={
                "maxItems": st.integers(0, 3),
                "minItems": st.integers(0, 2),
                "x-kubernetes-list-type": st.sampled_from(["set", "atomic"]),
            },
        ),
    )


def with_default(schema: dict[str, Any], choice: int) -> dict[str, Any]:
    values: dict[str, Any] = {"string": "a", "integer": 1, "boolean": True, "object": {}, "array": []}
    if choice == 0 and schema.get("type") in values:
        return {**schema, "default": values[schema["type"]]}
    return schema


def logical(schema: dict[str, Any], choice: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    keyword = ("allOf", "anyOf", "oneOf", "not")[choice % 4]
    if choice < 4 and schema.get("type") == "string":
        return {**schema, keyword: parts[0] if keyword == "not" else parts}
    return schema


PARTS = st.lists(
    st.sampled_from([{"pattern": "^a"}, {"minLength": 2}, {"enum": ["a", "b"]}]), min_size=1, max_size=2
)
SCALARS = st.builds(logical, scalars(), st.integers(0, 12), PARTS)
SCHEMAS = st.recursive(
    st.builds(with_default, SCALARS, st.integers(0, 3)),
    lambda inner: st.builds(with_default, containers(inner), st.integers(0, 3)),
    max_leaves=6,
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 5),
        st.sampled_from([0.5, 1.0, 1 << 70]),
        st.sampled_from(["", "a", "b", "abc", "é"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def fitting(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """A value that has the shape of a schema, more often than not."""
    if draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    kind = schema.get("type")
    if kind == "object":
        if "additionalProperties" in schema:
            keys = draw(st.lists(NAMES, max_size=3, unique=True))
            return {key: draw(fitting(schema["additionalProperties"])) for key in keys}
        properties = schema["properties"]
        keys = draw(st.lists(st.sampled_from([*properties, "zz"]), max_size=4, unique=True))
        return {key: draw(fitting(properties.get(key, {"type": "object", "properties": {}}))) for key in keys}
    if kind == "array":
        return draw(st.lists(fitting(schema["items"]), max_size=3))
    if kind == "string":
        return draw(st.sampled_from(["", "a", "b", "abc"]))
    if kind in ("integer", "number"):
        return draw(st.integers(-3, 5))
    return draw(st.booleans()) if kind == "boolean" else draw(VALUES)


PAIRS = SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema)))


@settings(max_examples=300, deadline=None)
@given(PAIRS)
def test_clear_bit_means_no_error(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    node = Node(schema)
    bad: list[int] = []
    flags = check_of(Compiled.of(node))(value, bad)
    errors = validate_value(Compiled.of(node), value)
    if not flags & INVALID:
        assert errors == []
        assert validate_lists(node, value, "") == []
    if not flags & REPEATED:
        assert validate_lists(node, value, "") == []
    assert validate_value(Compiled.of(node), value, bad=frozenset(bad)) == errors
    pruned = copy.deepcopy(value)
    if not flags & UNKNOWN:
        assert prune(pruned, node) == []
        assert pruned == value
    filled = copy.deepcopy(value)
    apply_defaults(filled, node)
    drop_nulls(filled, node)
    if not flags & UNFILLED:
        assert filled == value


@settings(max_examples=200, deadline=None)
@given(PAIRS)
def test_pruning_and_defaulting_are_idempotent_and_commute(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    node = Node(schema)
    pruned = copy.deepcopy(value)
    prune(pruned, node)
    again = copy.deepcopy(pruned)
    assert prune(again, node) == []
    assert again == pruned
    filled = copy.deepcopy(value)
    apply_defaults(filled, node)
    twice = copy.deepcopy(filled)
    apply_defaults(twice, node)
    assert twice == filled
    apply_defaults(pruned, node)
    prune(filled, node)
    assert pruned == filled


@settings(max_examples=200, deadline=None)
@given(PAIRS)
def test_validation_does_not_change_objects_and_decoding_is_idempotent(
    pair: tuple[dict[str, Any], Any],
) -> None:
    schema, value = pair
    root = SchemaVersion({"type": "object", "properties": {"spec": schema}})
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": value}
    root.decode(obj)
    decoded = copy.deepcopy(obj)
    first = root.validate(obj)
    assert obj == decoded
    assert root.decode(obj) == []
    assert obj == decoded
    assert root.process(obj) == ([], first)


@settings(max_examples=200, deadline=None)
@given(PAIRS)
def test_an_unchanged_object_is_never_rejected(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    assume("x-kubernetes-preserve-unknown-fields" not in str(schema))
    root = SchemaVersion({"type": "object", "properties": {"spec": schema}})
    obj = {"spec": value}
    root.decode(obj)
    assert root.validate(copy.deepcopy(obj), obj).errors == []


KEYWORDS = st.one_of(
    scalars().filter(lambda schema: "type" in schema), containers(scalars().filter(lambda s: "type" in s))
)


@settings(max_examples=250, deadline=None)
@given(KEYWORDS.flatmap(lambda schema: st.tuples(st.just(schema), fitting(schema))))
def test_validity_agrees_with_json_schema(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    assume("." not in str(value) and str(1 << 70) not in str(value))

    def draft4(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        plain = {key: part[key] for key in part if not key.startswith("x-") and key != "nullable"}
        for key in ("properties",):
            if key in plain:
                plain[key] = {name: draft4(child) for name, child in plain[key].items()}
        for key in ("items", "additionalProperties"):
            if key in plain:
                plain[key] = draft4(plain[key])
        if part.get("nullable"):
            plain["type"] = [plain["type"], "null"]
        if not plain.get("required", True):
            del plain["required"]
        return plain

    oracle = jsonschema_rs.validator_for(
        {"$schema": "http://json-schema.org/draft-04/schema#", **draft4(schema)}
    )
    assert (validate_value(Compiled.of(Node(schema)), value) == []) == oracle.is_valid(value)


def test_deep_nesting_is_rejected_and_not_a_crash() -> None:
    named = {"type": "string", "default": "x"}
    recursive = {"type": "object", "properties": {"next": {"$ref": "T"}, "name": named}}
    schema = SchemaVersion({"type": "object", "properties": {"spec": {"$ref": "T"}}}, {"T": recursive})
    obj: dict[str, Any] = {}
    for _ in range(50_000):
        obj = {"next": obj}
    with pytest.raises(TooDeepError):
        schema.process({"spec": obj})
    with pytest.raises(TooDeepError):
        schema.default({"spec": obj})
    while obj:
        obj = obj.pop("next")


def test_catastrophic_patterns_take_linear_time() -> None:
    schema = SchemaVersion(
        {"type": "object", "properties": {"spec": {"type": "string", "pattern": "^(a+)+(b|a*)*$"}}}
    )
    started = time.process_time()
    verdict = schema.validate({"spec": "a" * 100_000 + "!"})
    assert len(verdict.errors) == 1
    assert time.process_time() - started < 5


def test_recursive_definitions_compile_on_demand() -> None:
    kids = {"type": "array", "items": {"$ref": "T"}}
    tree = {"type": "object", "properties": {"kids": kids, "n": {"type": "integer"}}}
    schema = SchemaVersion({"type": "object", "properties": {"spec": {"$ref": "T"}}}, {"T": tree})
    verdict = schema.validate({"spec": {"kids": [{"kids": [{"n": "x"}]}]}})
    assert [error.field for error in verdict.errors] == ["spec.kids[0].kids[0].n"]
