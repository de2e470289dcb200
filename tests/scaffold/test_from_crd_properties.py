"""Round trip of random structural schemas through generated types."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubewright.api.presence import copy_value
from kubewright.schema.crd.definition import default_crd, validate_crd

from .generated import normalized, regenerate
from .test_from_crd import with_schema

Schemas = st.SearchStrategy[dict[str, Any]]
NAMES = st.sampled_from(
    [
        "name",
        "class",
        "list",
        "fooBar",
        "foo_bar",
        "URL",
        "podCIDRs",
        "x-y",
        "items",
        "metadata",
        "kind",
        "copy",
    ]
)
DESCRIPTIONS = st.sampled_from(
    [
        "",
        "One line.",
        "Two\nlines.",
        'A "quote" and a \\ backslash.',
        'ends in """',
        'ends in \\"',
        "\0\r\x0c",
    ]
) | st.text("ab\"'\\\n\0 {}", max_size=12)


def _merged(*parts: Schemas) -> Schemas:
    return st.tuples(*parts).map(lambda found: {key: item for part in found for key, item in part.items()})


def _maybe(strategy: Schemas) -> Schemas:
    return st.one_of(st.just({}), strategy)


def _keyword(name: str, values: st.SearchStrategy[Any]) -> Schemas:
    return _maybe(values.map(lambda value: {name: value}))


COMMON = _merged(
    _keyword("description", DESCRIPTIONS.filter(bool)),
    _keyword("nullable", st.just(True)),
    _keyword("title", st.just("A title")),
    _keyword("x-kubernetes-validations", st.just([{"rule": "true", "message": "is always true"}])),
)
STRINGS = _merged(
    st.just({"type": "string"}),
    COMMON,
    st.one_of(
        _merged(_keyword("minLength", st.integers(0, 3)), _keyword("maxLength", st.integers(3, 300))),
        st.just({"enum": ["a", "", "c d"]}),
        st.just(
            {
                "enum": [f"a-rather-long-value-{number}" for number in range(5)],
                "default": "a-rather-long-value-3",
            }
        ),
        st.sampled_from(
            [{"format": name} for name in ("date-time", "byte", "uuid", "ipv4", "date", "duration")]
        ),
        st.just({"pattern": r"^[a-z\d]+(\.\w+)*$", "default": "a"}),
        st.text("ab\"'\\\n \0{}", max_size=300).map(lambda text: {"default": text}),
        st.just({"anyOf": [{"pattern": "^a"}, {"maxLength": 1}]}),
    ),
)
INTEGERS = _merged(
    st.just({"type": "integer"}),
    COMMON,
    _keyword("format", st.sampled_from(["int32", "int64"])),
    st.one_of(
        _merged(
            _keyword("minimum", st.integers(-5, 0)),
            _keyword("maximum", st.integers(5, 9)),
            _keyword("default", st.integers(0, 5)),
        ),
        st.just({"minimum": 1, "exclusiveMinimum": True, "multipleOf": 2, "default": 4}),
        st.just({"enum": [1, 2, 3], "default": 2}),
        st.just({"not": {"enum": [3]}}),
    ),
)
OTHERS = st.sampled_from(
    [
        {"type": "boolean"},
        {"type": "boolean", "default": False},
        {"type": "boolean", "default": True, "nullable": True},
        {"type": "number", "default": 0.5},
        {"type": "number", "format": "double", "minimum": 0.25},
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "default": "1",
        },
        {"x-kubernetes-int-or-string": True, "maximum": 5, "pattern": "^1"},
        {"x-kubernetes-preserve-unknown-fields": True},
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-embedded-resource": True,
        },
        {"type": "object", "additionalProperties": True},
        {"type": "object"},
    ]
)


def _arrays(items: Schemas) -> Schemas:
    plain = _merged(
        st.just({"type": "array"}),
        items.map(lambda schema: {"items": schema}),
        COMMON,
        _keyword("minItems", st.integers(0, 1)),
        _keyword("maxItems", st.integers(1, 4)),
        _keyword("x-kubernetes-list-type", st.just("atomic")),
    )
    sets = st.just(
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "default": []}
    )
    maps = st.just(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}},
            "default": [{"key": "a"}],
        }
    )
    return st.one_of(plain, sets, maps)


def _maps(values: Schemas) -> Schemas:
    return _merged(
        st.just({"type": "object"}),
        values.map(lambda schema: {"additionalProperties": schema}),
        COMMON,
        _keyword("maxProperties", st.integers(1, 9)),
        _keyword("x-kubernetes-map-type", st.sampled_from(["atomic", "granular"])),
    )


@st.composite
def _objects(draw: st.DrawFn, values: Schemas) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, values, min_size=1, max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": properties, **draw(COMMON)}
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    if required:
        schema["required"] = sorted(required)
    if draw(st.booleans()):
        schema["oneOf"] = [{"required": [name]} for name in sorted(properties)]
    if draw(st.booleans()):
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if not required and draw(st.booleans()):
        schema["default"] = {}
    return schema


SCALARS = st.one_of(STRINGS, INTEGERS, OTHERS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(_arrays(inner), _maps(inner), _objects(inner)), max_leaves=8
)


@settings(max_examples=60, deadline=None)
@given(spec=_objects(VALUES), required=st.booleans())
def test_round_trip(spec: dict[str, Any], required: bool) -> None:
    for keyword in ("default", "nullable"):
        spec.pop(keyword, None)
    crd = with_schema(spec)
    if not required:
        del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"]
    defaulted = copy_value(crd)
    default_crd(defaulted)
    assume(not list(validate_crd(defaulted)))
    with tempfile.TemporaryDirectory() as directory:
        assert normalized(regenerate(crd, Path(directory))) == normalized(crd)
