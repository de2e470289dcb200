from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubewright.manifests import to_yaml
from kubewright.manifests.yaml_output import to_compact_yaml

WORDS = (
    "yes|No|null|~|1|1.0|0x1|1e3|-|- a|a: b|a #b|#|'|\"|*|&a|!x|%|@|`|=|<<|{}|[]|...|---|on|Y|a's|?|? a|a:"
)
LINES = [
    "a\nb",
    "a\n",
    "\na",
    " a\nb",
    "a\n\n",
    "a \nb",
    "a\n b",
    "a\tb\nc",
    "a\n\nb",
    "a: |\n",
    "\u2028\n",
    "é\nü",
]
tricky = st.sampled_from([*WORDS.split("|"), *LINES, "", " ", "|", "2001-01-01", "\x07\n", "\n\U00010000"])
texts = tricky | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(values, min_size=1, max_size=2))
@example([{"a": [{"b": []}, [[1, {"c": {}}]], []]}])
def test_output_can_be_parsed(documents: list[Any]) -> None:
    assert list(yaml.load_all(to_yaml(documents), yaml.CSafeLoader)) == documents


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(texts, values, min_size=1, max_size=3), st.sampled_from((0, 20, 40, 120)))
@example({"a": {"b": {}}, "c": [[], {}]}, 0)
@example({"a": ["--flag=1", "/path", "-x", "-", "x,y", "a]b"]}, 120)
def test_compact_output_can_be_parsed(document: dict[str, Any], width: int) -> None:
    text = to_compact_yaml([document, document], width=width)
    assert list(yaml.load_all(text, yaml.CSafeLoader)) == [document, document]


def test_compact_layout() -> None:
    data = {"kind": "Role", "rules": [{"verbs": ["get", "list"], "urls": ["/metrics"]}], "spec": {"a": {}}}
    assert to_compact_yaml([data]) == (
        "kind: Role\nrules: [{verbs: [get, list], urls: [/metrics]}]\nspec: {a: {}}\n"
    )
    assert to_compact_yaml([data], width=30) == (
        "kind: Role\nrules:\n- verbs: [get, list]\n  urls: [/metrics]\nspec: {a: {}}\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {"d": [], "c": {}}}, "---\na:\n  c: {}\n  d: []\nb: 1\n"),
        ({"a": [{"b": 1, "c": 2}, "x"]}, "---\na:\n- b: 1\n  c: 2\n- x\n"),
        ([[1, 2], [3]], "---\n- - 1\n  - 2\n- - 3\n"),
        ({"a": "one\ntwo"}, "---\na: |-\n  one\n  two\n"),
        ({"a": [{"b": "one\n\ntwo\n"}]}, "---\na:\n- b: |\n    one\n\n    two\n"),
        ({"a": "yes", "b": "1", "c": ""}, "---\na: 'yes'\nb: '1'\nc: ''\n"),
    ],
)
def test_layout(value: Any, text: str) -> None:
    assert to_yaml([value]) == text


def test_shared_values_are_repeated() -> None:
    part = {"x": 1}
    assert to_yaml([{"a": part, "b": part}]) == "---\na:\n  x: 1\nb:\n  x: 1\n"
