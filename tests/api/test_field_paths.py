"""Field paths and nested access."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.selectors.field_paths import (
    NestedTypeError,
    SimplePath,
    nested_delete,
    nested_get,
    nested_set,
)
from kubewright.api.selectors.jsonpath_steps import JSONPathError


def test_parse_get_set_delete() -> None:
    path = SimplePath.parse(".spec.labels['a.b/c'].x")
    assert path.keys == ("spec", "labels", "a.b/c", "x")
    assert str(path) == ".spec.labels['a.b/c'].x"
    data: dict[str, Any] = {}
    assert path.get(data, "none") == "none"
    path.set(data, 3)
    assert data == {"spec": {"labels": {"a.b/c": {"x": 3}}}}
    assert path.get(data) == 3
    assert path.delete(data)
    assert not path.delete(data)
    assert SimplePath.parse('.a["b"]') == SimplePath(["a", "b"])


@pytest.mark.parametrize("text", ["", "spec", ".", ".a[0]", ".a[*]", ".a..b", ".a['b'", "$.a", ".a b"])
def test_malformed_text(text: str) -> None:
    with pytest.raises(JSONPathError):
        SimplePath.parse(text)


def test_nested_access_in_lists() -> None:
    data: dict[str, Any] = {"a": [{"b": 1}, {"b": 2}], "n": None}
    assert nested_get(data, ["a", 1, "b"]) == 2
    assert nested_get(data, ["a", -1, "b"]) == 2
    assert nested_get(data, ["a", 5, "b"], "no") == "no"
    assert nested_get(data, ["n"], "no") is None
    assert nested_get(data, ["n", "x"], "no") == "no"
    nested_set(data, ["a", 0, "c", "d"], 9)
    nested_set(data, ["n", "x"], 1)
    nested_set(data, ["a", 1], "whole")
    assert data == {"a": [{"b": 1, "c": {"d": 9}}, "whole"], "n": {"x": 1}}
    assert nested_delete(data, ["a", 1])
    assert not nested_delete(data, ["a", 1])
    assert not nested_delete(data, ["q", "r"])
    with pytest.raises(TypeError, match=r"\.a is a list of 1, which has no 7"):
        nested_set(data, ["a", 7, "x"], 1)
    with pytest.raises(TypeError, match=r"\.a\[0\]\.b is an integer"):
        nested_set(data, ["a", 0, "b", "x"], 1)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_formatting_and_parsing_round_trip(keys: list[str]) -> None:
    path = SimplePath(keys)
    assert SimplePath.parse(str(path)) == path
    data: dict[str, Any] = {}
    path.set(data, 1)
    assert path.get(data) == 1


def test_a_path_through_another_type_is_not_a_missing_value() -> None:
    data: dict[str, Any] = {"spec": {"template": "text", "ports": [1], "count": 3}}
    for keys, message in {
        ("spec", "template", "image"): r".spec.template is a string, not a map; .* at .spec.template.image",
        ("spec", "ports", "first"): r".spec.ports is a list, not a map",
        ("spec", "template", 0): r".spec.template is a string, not a list",
        ("spec", "count", "x", "y"): r".spec.count is an integer, not a map",
    }.items():
        with pytest.raises(NestedTypeError, match=message):
            nested_get(data, keys, "default")
        assert not nested_delete(data, keys)
    with pytest.raises(NestedTypeError, match="the root is a list, not a map"):
        nested_get([], ["a"])
    assert SimplePath.parse(".spec.template.image").get(data, "default") == "default"


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
)


@given(value=values, of=st.sampled_from([bool, int, float, str, list, dict]))
def test_a_typed_read_returns_the_type_the_default_or_raises(value: Any, of: type[Any]) -> None:
    """As NestedString and the like of Go: found, not found, or an error; never another type."""
    missing = of()
    assert nested_get({}, ["a"], missing, of=of) is missing
    assert nested_get({}, ["a"], of=of) is None
    is_number = of is float and type(value) is int
    if value is None:
        assert nested_get({"a": value}, ["a"], missing, of=of) is missing
    elif type(value) is of or is_number:
        found = nested_get({"a": value}, ["a"], of=of)
        assert type(found) is of
        assert found == (float(value) if is_number else value)
    else:
        with pytest.raises(NestedTypeError, match=r"^\.a is (a|an) \w+, expected (a|an) \w+$"):
            nested_get({"a": value}, ["a"], missing, of=of)
