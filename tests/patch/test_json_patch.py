"""JSON patch (RFC 6902) with the behaviour of kube-apiserver."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.patch import MalformedPatch, PatchDoesNotApply, PatchTooLarge, json_patch

scalars = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text("ab/~", max_size=3))
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("ab/~01", max_size=2), inner, max_size=4)
    ),
    max_leaves=15,
)
objects = st.dictionaries(st.text("ab/~01", max_size=2), documents, max_size=4)


@settings(max_examples=200)
@given(objects, objects)
def test_diff_and_apply_round_trip(a: dict[str, Any], b: dict[str, Any]) -> None:
    before = copy.deepcopy(a)
    patch = json_patch.diff(a, b)
    assert json_patch.apply(a, patch) == b
    assert a == before
    assert jsonpatch.apply_patch(a, patch) == b, "another implementation agrees"


@settings(max_examples=150)
@given(objects, objects)
def test_same_result_as_another_implementation(a: dict[str, Any], b: dict[str, Any]) -> None:
    patch = jsonpatch.make_patch(a, b).patch
    kept = copy.deepcopy(a), copy.deepcopy(patch)
    assert json_patch.apply(a, patch) == b
    assert (a, patch) == kept, "neither document nor patch is changed"


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        ({}, {"op": "add", "path": "/a", "value": 1}, {"a": 1}),
        ({}, {"op": "add", "path": "/a"}, {"a": None}),
        ({}, {"op": "add", "path": "/", "value": 1}, {"": 1}),
        ({"a": [1, 3]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-1", "value": 9}, {"a": [1, 2, 9]}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/-1"}, {"a": [1]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/0", "value": 0}, {"a": [0, 2]}),
        ({"a": 1}, {"op": "replace", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 1}}, {"b": 1}),
        ({"a/b": {"~": 1}}, {"op": "move", "from": "/a~1b/~0", "path": "/c"}, {"a/b": {}, "c": 1}),
        ({"a": {"x": 1}}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": {"x": 1}, "b": {"x": 1}}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.0}, {"a": 1}),
        ({"a": 1}, {"op": "test", "path": "/b", "value": None}, {"a": 1}),
        ({"a": 1}, {"op": "test", "path": "", "value": {"a": 1}}, {"a": 1}),
    ],
)
def test_operations(document: Any, operation: dict[str, Any], result: Any) -> None:
    assert json_patch.apply(document, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nosuch"},
        {"op": "remove", "path": "/l/2"},
        {"op": "replace", "path": "/nosuch/x", "value": 1},
        {"op": "replace", "path": "/l/5", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/l/" + "9" * 5000, "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "move", "from": "/nosuch", "path": "/b"},
        {"op": "copy", "from": "/nosuch/x", "path": "/b"},
        {"op": "move", "path": "/b"},
        {"op": "frobnicate", "path": "/a"},
        {"op": "add"},
        {"path": "/a"},
    ],
)
def test_patch_that_does_not_apply_is_422(operation: dict[str, Any]) -> None:
    document = {"a": 1, "l": [1, 2]}
    with pytest.raises(PatchDoesNotApply) as caught:
        json_patch.apply(document, [{"op": "add", "path": "/x", "value": 1}, operation])
    assert caught.value.status_code == 422
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert document == {"a": 1, "l": [1, 2]}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"op": "add"}, "object into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_malformed_patch_is_400(patch: Any, message: str) -> None:
    with pytest.raises(MalformedPatch) as caught:
        json_patch.apply({}, patch)
    assert caught.value.status_code == 400
    assert caught.value.message == "error decoding patch: json: cannot unmarshal " + message


def test_limits() -> None:
    with pytest.raises(PatchTooLarge, match="is 10000, got 10001"):
        json_patch.apply({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{n}"} for n in range(60)]
    with pytest.raises(PatchDoesNotApply, match="exceeding the limit"):
        json_patch.apply({"a": {"x": "y" * 100}}, doubling)


def test_copied_values_are_independent() -> None:
    patch = [
        {"op": "add", "path": "/a/y", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x", "value": 2},
        {"op": "add", "path": "/a/z", "value": 3},
    ]
    assert json_patch.apply({"a": {}}, patch) == {"a": {"y": 1, "z": 3}, "b": {"y": 1, "x": 2}}


def test_unchanged_parts_are_shared() -> None:
    document: dict[str, Any] = {"a": {"b": {}}, "c": {}}
    result = json_patch.apply(document, [{"op": "add", "path": "/a/x", "value": 1}])
    assert result["c"] is document["c"]
    assert result["a"]["b"] is document["a"]["b"]
