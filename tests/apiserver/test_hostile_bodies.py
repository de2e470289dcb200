"""Request bodies that are valid or nearly so, but expensive: the cost stays proportional to their size."""

from __future__ import annotations

import json

import pytest

from kubewright.apiserver.http.messages import WarningRecorder
from kubewright.schema.duplicates import duplicate_fields, field_paths, merged_duplicates
from kubewright.schema.pruning import prune
from kubewright.schema.structural import Node

FIELDS = 120_000
"""With a cost that grows with the square, a test with so many fields takes minutes."""


@pytest.mark.parametrize("validation", ["Warn", "Strict", "Ignore"])
async def test_many_unknown_fields_are_removed_and_a_hundred_reported(talk, widget, base, validation):
    body = widget("a", spec={f"f{number}": 1 for number in range(FIELDS)})
    response = await talk.send("POST", f"{base}?fieldValidation={validation}", body)
    if validation == "Strict":
        assert response.status == 400
        assert json.loads(response.body)["message"].count("unknown field") == 100
    else:
        assert response.status == 201
        assert len(response.body) < 2000
        assert len(response.headers.get("Warning", [])) == (100 if validation == "Warn" else 0)


async def test_many_duplicate_fields_are_reported_up_to_a_hundred(talk, base):
    spec = ",".join(f'"f{number}":1,"f{number}":2' for number in range(FIELDS // 2))
    body = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{' + spec + "}}"
    response = await talk.send("POST", base, body.encode())
    assert response.status == 201
    assert len(response.headers["Warning"]) == 100
    assert response.headers["Warning"][0] == '299 - "duplicate field \\"spec.f0\\""'


def test_a_key_repeated_many_times_is_merged_without_copies():
    text = "{" + ",".join(f'"spec":{{"f{number}":{number}}}' for number in range(FIELDS)) + "}"
    merged = merged_duplicates(text)
    assert len(merged["spec"]) == FIELDS
    assert merged["spec"]["f7"] == 7


def test_paths_below_long_names_are_not_extended():
    name = "n" * 500_000
    leaves = ",".join(f'"f{number}":{{}}' for number in range(FIELDS))
    text = f'{{"a":1,"a":2,"{name}":{{"x":{{{leaves},"f0":1}}}}}}'
    assert duplicate_fields(text) == ["a", name]
    assert field_paths(text, {"a", "missing"}) == ["a"]
    schema = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": False}}
    schema["additionalProperties"]["properties"] = {"known": {"type": "object"}}
    value = {name: {f"f{number}": {} for number in range(FIELDS)}}
    unknown = prune(value, Node(schema))
    assert value == {name: value[name]}
    assert len(unknown) <= 10_000
    assert max(map(len, unknown), default=0) < 2_000


def test_warnings_are_recorded_once_and_in_order():
    recorded = WarningRecorder()
    for text in ("b", "a", "b"):
        recorded.add(text)
    assert list(recorded) == ["b", "a"]
    for number in range(FIELDS):
        recorded.add(f"w{number}")
    assert len(recorded) == WarningRecorder.LIMIT
