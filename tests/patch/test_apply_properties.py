"""Properties of server-side apply, with generated configurations."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubewright.patch import ApplyConflict, FieldManager, FieldSet
from kubewright.patch.comparison import compare
from kubewright.patch.merge import merge
from kubewright.patch.merge_schema import object_merge_schema
from kubewright.patch.typed import extract_items, remove_items, to_fieldset, validate
from kubewright.schema.structural import Node

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = {"type": "string"}
NODE = Node(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                    "keyed": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": TEXT,
                                "a": TEXT,
                                "b": {"type": "object", "additionalProperties": TEXT},
                            },
                        },
                    },
                    "list": {"type": "array", "items": TEXT},
                    "map": {"type": "object", "additionalProperties": TEXT},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "additionalProperties": TEXT,
                    },
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)
SHAPE = object_merge_schema(NODE)
FM = FieldManager("example.com/v1", "Widget", NODE)

words = st.sampled_from(["x", "y", "z"])
texts = st.sampled_from(["1", "2"])
maps = st.dictionaries(words, texts, max_size=2)
anything = st.recursive(
    st.one_of(texts, st.integers(0, 1)), lambda inner: st.dictionaries(words, inner, max_size=2), max_leaves=4
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "set": st.lists(words, max_size=3, unique=True),
        "keyed": st.lists(
            st.fixed_dictionaries({"name": words}, optional={"a": texts, "b": maps}),
            max_size=3,
            unique_by=lambda item: str(item["name"]),
        ),
        "list": st.lists(words, max_size=2),
        "map": maps,
        "whole": maps,
        "any": st.dictionaries(words, anything, max_size=2),
    },
)


def widget(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def owned(obj: dict[str, Any], manager: str) -> FieldSet:
    for entry in obj["metadata"].get("managedFields", []):
        if entry["manager"] == manager:
            return FieldSet.parse(entry["fieldsV1"])
    return FieldSet()


def by_key(spec: dict[str, Any]) -> dict[str, Any]:
    """Order in sets and keyed lists is not compared."""
    out = {**spec}
    if isinstance(out.get("set"), list):
        out["set"] = sorted(out["set"])
    if isinstance(out.get("keyed"), list):
        out["keyed"] = sorted(out["keyed"], key=lambda item: str(item["name"]))
    return out


@settings(max_examples=150, deadline=None)
@given(specs, specs)
def test_apply_is_idempotent(before: dict[str, Any], spec: dict[str, Any]) -> None:
    live = FM.update(None, widget(before), "creator", NOW)
    kept = copy.deepcopy((live, spec))
    once = FM.apply(live, widget(spec), "one", NOW, force=True)
    assert FM.apply(once, widget(spec), "one", NOW) == once
    assert (live, spec) == kept, "inputs stay as they were"
    assert merge(once, widget(spec), SHAPE) == once, "all that was applied is there"


@settings(max_examples=150, deadline=None)
@given(specs, specs)
def test_empty_apply_owns_nothing(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = FM.apply(None, widget(first), "one", NOW)
    live = FM.apply(live, widget(second), "two", NOW, force=True)
    bare = {key: value for key, value in widget({}).items() if key != "spec"}
    after = FM.apply(live, bare, "two", NOW)
    assert not owned(after, "two")
    made = FM.apply(None, widget(first), "one", NOW)
    released = FM.apply(made, bare, "one", NOW)
    assert not owned(released, "one")
    left = FieldSet(to_fieldset(released, SHAPE))
    assert not left.intersection(owned(made, "one")), "fields without another owner are removed"


@settings(max_examples=200, deadline=None)
@given(specs, specs)
def test_disjoint_managers_commute(left: dict[str, Any], right: dict[str, Any]) -> None:
    try:
        one_two = FM.apply(FM.apply(None, widget(left), "one", NOW), widget(right), "two", NOW)
        two_one = FM.apply(FM.apply(None, widget(right), "two", NOW), widget(left), "one", NOW)
    except ApplyConflict:
        assume(False)
    disjoint = not owned(one_two, "one").intersection(owned(one_two, "two"))
    assume((disjoint and not set(left) & set(right)) or disjoint)
    assert by_key(one_two["spec"]) == by_key(two_one["spec"])
    assert owned(one_two, "one") == owned(two_one, "one")
    assert owned(one_two, "two") == owned(two_one, "two")


@settings(max_examples=150, deadline=None)
@given(specs, specs)
def test_comparison_is_exact(a: dict[str, Any], b: dict[str, Any]) -> None:
    left, right = widget(a), widget(b)
    comparison = compare(left, right, SHAPE)
    assert comparison.same is (by_key(a) == by_key(b)), (comparison, a, b)
    back = compare(right, left, SHAPE)
    assert FieldSet(comparison.modified) == FieldSet(back.modified) or a.get("any") or b.get("any")
    assert not FieldSet(comparison.added).intersection(FieldSet(comparison.removed)) or "any" in {*a, *b}


@settings(max_examples=150, deadline=None)
@given(specs)
def test_fields_of_a_value(spec: dict[str, Any]) -> None:
    obj = widget({name: value for name, value in spec.items() if value or name not in ("set", "keyed")})
    validate(obj, SHAPE)
    fields = to_fieldset(obj, SHAPE)
    assert compare(obj, {**obj, **(extract_items(obj, fields, SHAPE) or {})}, SHAPE).same
    assert remove_items(obj, to_fieldset({"spec": spec}, SHAPE), SHAPE)["kind"] == "Widget"


@settings(max_examples=150, deadline=None)
@given(specs, specs)
def test_owners_of_unchanged_fields_are_kept(a: dict[str, Any], b: dict[str, Any]) -> None:
    live = FM.apply(None, widget(a), "one", NOW)
    after = FM.update(live, {**live, "spec": b}, "editor", NOW)
    changed = FieldSet(compare(live, {**live, "spec": b}, SHAPE).changed())
    assert owned(after, "one") == owned(live, "one").difference(changed)
    assert not owned(after, "one").intersection(owned(after, "editor"))
