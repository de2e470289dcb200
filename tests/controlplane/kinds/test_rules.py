"""Options of validation rules, and tables of defaults."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.validation import (
    Enum,
    Errors,
    ExclusiveWildcard,
    Forbidden,
    Immutable,
    MaxItems,
    Minimum,
    Rules,
    Unique,
)


def texts(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("rules", "obj", "expected"),
    [
        (
            {"a": MaxItems(1, stop=True), "a[*]": Enum("x")},
            {"a": ["y", "y"]},
            ["a: Too many: 2: must have at most 1 item"],
        ),
        ({"a": MaxItems(1, stop=True), "a[*]": Enum("x")}, {"a": ["x"]}, []),
        (
            {"a": MaxItems(0, "no items", show=len)},
            {"a": ["y", "y"]},
            ["a: Invalid value: 2: no items"],
        ),
        (
            {"a": ExclusiveWildcard("verbs")},
            {"a": ["*", "get"]},
            ['a: Invalid value: ["*","get"]: if \'*\' is present, must not specify other verbs'],
        ),
        ({"a": ExclusiveWildcard("verbs")}, {"a": ["*"]}, []),
        ({"a": Forbidden("not here")}, {"a": ""}, []),
        ({"a": Forbidden("not here", pointer=True)}, {"a": ""}, ["a: Forbidden: not here"]),
        (
            {"a[*]": [Unique("k", last=True), {"n": Minimum(0)}]},
            {"a": [{"k": "x"}, {"k": "x", "n": -1}]},
            [
                "a[1].n: Invalid value: -1: must be greater than or equal to 0",
                'a[1].k: Duplicate value: "x"',
            ],
        ),
        (
            {"a[*]": [Unique("k", stop=True), {"n": Minimum(0)}]},
            {"a": [{"k": "x"}, {"k": "x", "n": -1}]},
            ['a[1].k: Duplicate value: "x"'],
        ),
    ],
)
def test_rule_options(rules: Any, obj: Any, expected: list[str]) -> None:
    assert texts(Rules(rules)(obj)) == expected


def test_immutable_fields() -> None:
    assert texts(Immutable(show=str.upper)("b", "a", "f")) == ['f: Invalid value: "B": field is immutable']
    assert texts(Immutable("no", forbidden=True)("b", "a", "f")) == ["f: Forbidden: no"]
    assert Immutable(show=str.upper)("a", "a", "f") == []


def test_defaults() -> None:
    defaults = Defaults(
        {
            "spec.type": IfEmpty("A"),
            "spec.suspend": False,
            "spec.ports[*].protocol": "TCP",
            "spec.ports[*]": lambda port: port.update(seen=True),
            "status.phase": "Pending",
            "spec.list": [1],
        }
    )
    obj: dict[str, Any] = {"spec": {"type": "", "ports": [{"protocol": "UDP"}, {}]}}
    defaults(obj)
    assert obj == {
        "spec": {
            "type": "A",
            "suspend": False,
            "ports": [{"protocol": "UDP", "seen": True}, {"protocol": "TCP", "seen": True}],
            "list": [1],
        }
    }
    other: dict[str, Any] = {"spec": {}}
    defaults(other)
    assert other["spec"]["list"] is not obj["spec"]["list"]
