"""Merge patch (RFC 7386) and three-way diff."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.patch import MalformedPatch, PatchConflict, merge_patch

scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
objects: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.dictionaries(
        st.sampled_from("abcd"), st.one_of(scalars, st.lists(scalars, max_size=3), objects), max_size=4
    )
)
patches: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.dictionaries(st.sampled_from("abcd"), st.one_of(st.none(), scalars, patches), max_size=4)
)


def reference(target: Any, patch: Any) -> Any:
    """The algorithm as the RFC states it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = reference(result.get(name), value)
    return result


@settings(max_examples=200)
@given(objects, objects)
def test_diff_and_apply_round_trip(a: dict[str, Any], b: dict[str, Any]) -> None:
    before = copy.deepcopy((a, b))
    patch = merge_patch.diff(a, b)
    assert merge_patch.apply(a, patch) == b
    assert (a, b) == before
    assert merge_patch.diff(b, b) == {}


@settings(max_examples=200)
@given(objects, patches)
def test_examples_of_the_rfc(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((document, patch))
    result = merge_patch.apply(document, patch)
    assert result == reference(document, patch)
    assert merge_patch.apply(result, patch) == result, "idempotent"
    assert (document, patch) == before


def test_nulls_of_new_values_are_dropped() -> None:
    assert merge_patch.apply({}, {"a": {"b": None, "l": [{"x": None}, None]}}) == {"a": {"l": [{}, None]}}
    assert merge_patch.apply({"a": {"b": 1}}, {"a": [{"x": None}]}) == {"a": [{"x": None}]}


@pytest.mark.parametrize(("patch", "kind"), [([], "array"), ("x", "string"), (1, "number")])
def test_patch_that_is_not_an_object_is_400(patch: Any, kind: str) -> None:
    with pytest.raises(MalformedPatch, match=f"cannot unmarshal {kind} into Go value"):
        merge_patch.apply({}, patch)
    with pytest.raises(MalformedPatch, match=r"^Invalid JSON Patch$"):
        merge_patch.apply({}, None)


def test_three_way() -> None:
    original = {"spec": {"a": 1, "gone": {"x": 1}, "l": [1]}}
    modified = {"spec": {"a": 2, "l": [1], "e": {}}}
    current = {"spec": {"a": 1, "gone": {"x": 1, "mine": 2}, "l": [2], "theirs": 1}}
    patch = merge_patch.three_way(original, modified, current)
    assert patch == {"spec": {"a": 2, "gone": None, "l": [1], "e": {}}}
    assert merge_patch.apply(current, patch) == {"spec": {"a": 2, "l": [1], "e": {}, "theirs": 1}}


@settings(max_examples=150)
@given(objects, objects, objects)
def test_three_way_applies_modifications(
    original: dict[str, Any], modified: dict[str, Any], current: dict[str, Any]
) -> None:
    try:
        result = merge_patch.apply(current, merge_patch.three_way(original, modified, current))
    except PatchConflict:
        return
    assert merge_patch.apply(result, modified) == result
