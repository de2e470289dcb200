"""Tables, ages, selectable fields and scale paths, and how values are printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api.values.go_format import format_float, marshal_json
from kubewright.schema import PathError, PrinterColumns, ScalePaths, SelectableFields, human_duration
from kubewright.schema.field_errors import GoStruct

NOW = datetime(2024, 1, 2, tzinfo=UTC)
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "The size."},
    {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio"},
    {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
    {"name": "Text", "type": "string", "jsonPath": ".spec.text", "priority": 1},
    {"name": "First", "type": "string", "jsonPath": ".spec.list[0].v"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
]


def test_cells_have_the_type_of_their_column() -> None:
    columns = PrinterColumns(COLUMNS)
    spec = {
        "size": 3,
        "ratio": 1.5,
        "on": True,
        "text": "t",
        "list": [{"v": "x"}],
        "when": "2024-01-01T00:00:00Z",
    }
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "spec": spec, "status": status}
    assert columns.cells(obj, NOW) == ["a", 3, 1.5, True, "t", "x", "True", "24h"]
    odd = {"metadata": {"name": "b"}, "spec": {"size": "text", "text": {"an": "object"}, "when": "never"}}
    assert columns.cells(odd, NOW) == ["b", None, None, None, '{"an":"object"}', None, None, "<invalid>"]


def test_definitions_describe_the_columns() -> None:
    definitions = PrinterColumns(COLUMNS).definitions
    assert [definition["name"] for definition in definitions] == [
        "Name",
        *(column["name"] for column in COLUMNS),
    ]
    assert definitions[0]["format"] == "name"
    assert definitions[1]["description"] == "The size."
    assert (
        definitions[2]["description"] == "Custom resource definition column (in JSONPath format): .spec.ratio"
    )
    assert definitions[4]["priority"] == 1


def test_default_column_is_the_age() -> None:
    columns = PrinterColumns(None)
    assert [definition["name"] for definition in columns.definitions] == ["Name", "Age"]
    obj = {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T23:55:00Z"}}
    assert columns.cells(obj, NOW) == ["a", "5m"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (372, "6m12s"),
        (600, "10m"),
        (10_799, "179m"),
        (11_700, "3h15m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (187_200, "2d4h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (64_108_800, "2y12d"),
        (315_360_000, "10y"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == text


def test_a_date_that_is_empty_is_unknown() -> None:
    columns = PrinterColumns([{"name": "When", "type": "date", "jsonPath": ".when"}])
    assert columns.cells({"metadata": {"name": "a"}, "when": ""}, NOW) == ["a", "<unknown>"]
    assert columns.cells({"metadata": {"name": "a"}, "when": "soon"}, NOW) == ["a", "<invalid>"]


def test_selectable_fields_are_text() -> None:
    fields = SelectableFields(
        [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}, {"jsonPath": ".spec.on"}]
    )
    assert fields.names == ("spec.color", "spec.n", "spec.on")
    assert fields.values({"spec": {"color": "red", "n": 3, "on": True}}) == {
        "spec.color": "red",
        "spec.n": "3",
        "spec.on": "true",
    }
    assert fields.values({"spec": "odd"}) == {"spec.color": "", "spec.n": "", "spec.on": ""}


SCALE = ScalePaths.of(
    {
        "specReplicasPath": ".spec.n",
        "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.selector",
    }
)


def test_scale_reads_and_writes_by_path() -> None:
    obj: dict[str, Any] = {}
    assert SCALE.get_replicas(obj) is None
    SCALE.set_replicas(obj, 3)
    assert obj == {"spec": {"n": 3}}
    assert (SCALE.get_replicas(obj), SCALE.get_status_replicas(obj), SCALE.get_selector(obj)) == (3, 0, "")
    with pytest.raises(PathError, match="not a map"):
        SCALE.set_replicas({"spec": 1}, 2)


def test_scale_numbers_are_checked() -> None:
    obj = {"spec": {"n": -1}, "status": {"n": "x", "selector": 1}}
    assert [str(error) for error in SCALE.errors(obj)] == [
        ".spec.n: Invalid value: -1: should be a non-negative integer",
        ".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, expected int64",
        '.status.selector: Invalid value: "": .status.selector accessor error: 1 is of the type int64, '
        "expected string",
    ]
    assert SCALE.errors({"spec": {"n": 1 << 31}})[0].message.endswith(
        "should be less than or equal to 2147483647"
    )


def test_values_are_printed_as_in_go() -> None:
    assert [format_float(value) for value in (1.0, 1.5, 1e21, 1e-5, 1e5, -0.0, 123456789.25)] == [
        "1", "1.5", "1e+21", "1e-05", "100000", "-0", "1.2345678925e+08",
    ]  # fmt: skip
    assert (
        marshal_json({"b": [1, None, True, 1e-7], "a": "<&>\n"})
        == '{"a":"\\u003c\\u0026\\u003e\\n","b":[1,null,true,1e-7]}'
    )
    assert marshal_json(GoStruct(b=1, a=2)) == '{"b":1,"a":2}'


def test_a_null_in_a_list_has_no_value() -> None:
    columns = PrinterColumns([{"name": "X", "type": "string", "jsonPath": ".spec.list[*].x"}])
    assert columns.cells({"metadata": {"name": "a"}, "spec": {"list": [{"x": None}]}}) == ["a", "<no value>"]
