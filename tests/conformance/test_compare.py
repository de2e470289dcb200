"""Normalisation and comparison of responses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.conformance.compare import Comparer
from tests.conformance.normalise import UID, Normaliser, ResourceVersion, number_identities
from tests.conformance.paths import locate, lookup
from tests.conformance.variables import substitute

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FIRST_UID, SECOND_UID = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


def record(body: Any, **values: Any) -> dict[str, Any]:
    return {"step": 0, "status": 200, "body": body, **values}


def levels(expected: dict[str, Any], actual: dict[str, Any]) -> list[int]:
    return [each.level for each in Comparer().compare(expected, actual)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b[0].c", 1),
        ("a.b[name=y].c", 2),
        ("a.b[*].c", [1, 2]),
        ("a['x/y.z']", 3),
        ("a.missing", None),
        ("a.b[7]", None),
    ],
)
def test_lookup(path: str, value: Any) -> None:
    document = {"a": {"b": [{"name": "x", "c": 1}, {"name": "y", "c": 2}], "x/y.z": 3}}
    assert lookup(document, path) == value


def test_locate_returns_the_container() -> None:
    document = {"a": [1, 2]}
    for container, key, value in locate(document, "a[*]"):
        container[key] = value * 10
    assert document == {"a": [10, 20]}


def test_substitute_keeps_the_type_of_a_single_reference() -> None:
    assert substitute({"$(k)": ["$(n)", "x$(n)", "$(none)"]}, {"k": "key", "n": 5}) == {
        "key": [5, "x5", "missing-none"]
    }


def test_normalise_replaces_what_differs_between_runs() -> None:
    normaliser = Normaliser("bcd123", user="admin", now=NOW)
    document = {
        "kind": "ConfigMapList",
        "metadata": {"resourceVersion": "12", "continue": "abc"},
        "items": [
            {
                "metadata": {
                    "name": "x-bcd123",
                    "uid": FIRST_UID,
                    "resourceVersion": "10",
                    "creationTimestamp": "2026-01-01T20:00:00Z",
                    "managedFields": [],
                },
                "old": "2020-01-01T00:00:00Z",
                "text": f"uid {FIRST_UID} resourceVersion 17 at 127.0.0.1:4711",
            }
        ],
        "userInfo": {"username": "admin"},
        "verbs": ["watch", "get"],
    }
    assert normaliser.value(document) == {
        "kind": "ConfigMapList",
        "metadata": {"resourceVersion": "{listrv}", "continue": "{continue}"},
        "items": [
            {
                "metadata": {
                    "name": "x-{id}",
                    "uid": FIRST_UID,
                    "resourceVersion": "10",
                    "creationTimestamp": "{time}",
                },
                "old": "2020-01-01T00:00:00Z",
                "text": "uid {uid} resourceVersion {rv} at 127.0.0.1:{port}",
            }
        ],
        "userInfo": "{me}",
        "verbs": ["get", "watch"],
    }


def test_identities_are_numbered_by_order_and_occurrence() -> None:
    records = [ResourceVersion("30"), ResourceVersion("4"), UID(SECOND_UID), UID(FIRST_UID), UID(SECOND_UID)]
    assert number_identities(records) == ["{rv2}", "{rv1}", "{uid1}", "{uid2}", "{uid1}"]


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        (record({"a": 1}), record({"a": 1}), []),
        (record({"a": 1}), record({"a": 1.0}), []),
        (record({"a": 1}), record({"a": True}), [2]),
        (record({"a": 1}), record({"a": 1}, status=201), [1]),
        (record({"a": [1, 2]}), record({"a": [1]}), [2]),
        (record({"a": 1}), record({"b": 1}), [2, 2]),
        (record({"kind": "Status", "reason": "A"}), record({"kind": "Status", "reason": "B"}), [1, 2]),
        (record({"kind": "Status", "message": "A"}), record({"kind": "Status", "message": "B"}), [3]),
        (record({}, warnings=["a"]), record({}, warnings=["b"]), [3]),
        (record({}, warnings=["a"]), record({}, warnings=[]), [2]),
        (record({}, contentType="application/json"), record({}, contentType="text/plain"), [2]),
        (record({}, layout="compact, 1 final newline"), record({}, layout="compact, 0 final newlines"), [2]),
        (record("{rv1}"), record(ResourceVersion("9")), []),
        (record(["{rv1}", "{rv2}"]), record([ResourceVersion("9"), ResourceVersion("8")]), [2]),
        (record(["{uid1}", "{uid1}"]), record([UID(FIRST_UID), UID(SECOND_UID)]), [2]),
        (record(["{uid1}", "{uid2}"]), record([UID(FIRST_UID), UID(FIRST_UID)]), [2]),
    ],
)
def test_compare(expected: dict[str, Any], actual: dict[str, Any], found: list[int]) -> None:
    assert levels(expected, actual) == found


def test_causes_are_compared_at_level_three() -> None:
    expected = record({"kind": "Status", "details": {"name": "x", "causes": [{"field": "a"}]}})
    actual = record({"kind": "Status", "details": {"name": "x", "causes": [{"field": "b"}]}})
    assert levels(expected, actual) == [3]
