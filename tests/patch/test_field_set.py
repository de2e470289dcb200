"""Field sets: FieldsV1 and set operations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.patch import FieldSet, FieldSetError
from kubewright.patch.field_set import MAX_DEPTH
from kubewright.patch.path_elements import key_element, path_text, value_element

names = st.sampled_from(["a", "b", "c", "d"]).map(lambda name: "f:" + name)
values = st.one_of(st.integers(0, 3), st.sampled_from(["x", "<y>"]), st.booleans()).map(value_element)
keys = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from([1, 2, "x"]), min_size=1).map(key_element)
indexes = st.integers(0, 2).map(lambda index: f"i:{index}")
paths = st.lists(st.one_of(names, values, keys, indexes), min_size=1, max_size=4).map(tuple)
path_sets = st.frozensets(paths, max_size=8)


def members(fields: FieldSet) -> frozenset[tuple[str, ...]]:
    return frozenset(fields)


@settings(max_examples=150)
@given(path_sets)
def test_formatting_and_parsing_round_trip(chosen: frozenset[tuple[str, ...]]) -> None:
    fields = FieldSet.of(*chosen)
    assert members(fields) == chosen
    assert members(FieldSet.parse(fields.to_json())) == chosen
    assert FieldSet.parse(fields.to_fields_v1()).to_json() == fields.to_json()
    assert all(path in fields for path in chosen)


@settings(max_examples=200)
@given(path_sets, path_sets)
def test_operations_match_sets_of_paths(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    a, b = FieldSet.of(*left), FieldSet.of(*right)
    before = a.to_json(), b.to_json()
    assert members(a.union(b)) == left | right
    assert members(a.intersection(b)) == left & right
    assert members(a.difference(b)) == left - right
    kept = {path for path in left if not any(path[: len(cut)] == cut for cut in right)}
    assert members(a.recursive_difference(b)) == kept
    above = {path[:depth] for path in left for depth in range(len(path))}
    assert members(a.leaves()) == left - above
    assert (a == b) is (left == right)
    assert bool(a.difference(b)) is bool(left - right)
    assert (a.to_json(), b.to_json()) == before, "operands stay as they were"


@settings(max_examples=100)
@given(path_sets, path_sets, path_sets)
def test_algebra(
    p: frozenset[tuple[str, ...]], q: frozenset[tuple[str, ...]], r: frozenset[tuple[str, ...]]
) -> None:
    a, b, c = FieldSet.of(*p), FieldSet.of(*q), FieldSet.of(*r)
    assert a.union(b) == b.union(a)
    assert a.union(b).union(c) == a.union(b.union(c))
    assert a.intersection(b.union(c)) == a.intersection(b).union(a.intersection(c))
    assert a.difference(b).union(a.intersection(b)) == a
    assert a.union(b).difference(b) == a.difference(b)


def test_unchanged_results_are_the_same_tree() -> None:
    a = FieldSet.of(("f:a", "f:b"), ("f:c",))
    other = FieldSet.of(("f:z",))
    assert a.difference(other).tree is a.tree
    assert a.recursive_difference(other).tree is a.tree
    assert a.union(FieldSet.of(("f:c",))).tree is a.tree


def test_order_is_fields_keys_values_indexes() -> None:
    fields = FieldSet.parse(
        '{"i:1":{},"v:10":{},"v:\\"b\\"":{},"v:2":{},"f:z":{},"k:{\\"n\\":10}":{},"k:{\\"n\\":9}":{},"f:a":{".":{},"f:b":{}}}'
    )
    assert fields.to_json() == (
        b'{"f:a":{".":{},"f:b":{}},"f:z":{},"k:{\\"n\\":9}":{},"k:{\\"n\\":10}":{},'
        b'"v:2":{},"v:10":{},"v:\\"b\\"":{},"i:1":{}}'
    )


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ('k:{ "b" : 2.0, "a": "x" }', 'k:{"a":"x","b":2}'),
        ('v:"<"', 'v:"\\u003c"'),
        ("v: true", "v:true"),
        ("i:007", "i:7"),
    ],
)
def test_elements_become_canonical(written: str, canonical: str) -> None:
    assert list(FieldSet.parse({written: {}})) == [(canonical,)]


def test_unknown_types_of_elements_are_dropped() -> None:
    assert FieldSet.parse({"f:a": {"x:new": {}}}).to_fields_v1() == {"f:a": {}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"f": {}},
        {"fa": {}},
        {"k:[1]": {}},
        {"k:{": {}},
        {"v:": {}},
        {"i:x": {}},
        {"f:a": []},
        {"f:a": None},
        [],
        "{",
        "[" * 100_000,
        "1",
    ],
)
def test_errors(wrong: Any) -> None:
    with pytest.raises(FieldSetError):
        FieldSet.parse(wrong)


def test_depth_is_limited() -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 2):
        deep = {"f:a": deep}
    with pytest.raises(FieldSetError, match="nested more than"):
        FieldSet.parse(deep)


def test_paths_in_messages() -> None:
    path = ("f:spec", "f:ports", key_element({"protocol": "TCP", "port": 80}), "f:name")
    assert path_text(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert path_text(("f:a", value_element("x"), "i:3", value_element(None))) == '.a[="x"][3][=null]'
