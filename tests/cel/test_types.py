"""Expressions over declared types: fields, escapes, conversions, construction of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.cel import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    JSON_PATCH,
    MAP_KEY,
    OBJECT,
    STRING,
    CelCheckError,
    CelError,
    CelResultError,
    Env,
    Type,
    bytes_type,
    duration_type,
    escape,
    list_type,
    map_type,
    object_type,
    timestamp_type,
    to_json,
    unescape,
)

SPEC = object_type(
    "self",
    {
        "namespace": STRING,
        "a-b": INT,
        "x/y.z": INT,
        "double__under": INT,
        "ratio": DOUBLE,
        "at": timestamp_type(),
        "wait": duration_type(),
        "data": bytes_type(),
        "times": list_type(timestamp_type()),
        "waits": map_type(MAP_KEY, duration_type()),
        "tags": list_type(STRING, kind="set"),
        "child": object_type("self.child", {"at": timestamp_type(), "n": INT}),
    },
)
DATA: dict[str, Any] = {
    "namespace": "prod",
    "a-b": 1,
    "x/y.z": 2,
    "double__under": 3,
    "ratio": 2,
    "at": "2024-02-29T12:00:00Z",
    "wait": "1h",
    "data": "aGk=",
    "times": ["2024-01-01T00:00:00Z", "2023-01-01T00:00:00Z"],
    "waits": {"a": "30s"},
    "tags": ["a", "b"],
    "child": {"at": "2024-01-01T00:00:00Z", "n": 1},
}

RULES = [
    "self.__namespace__ == 'prod'",
    "self.namespace == 'prod'",
    "self.a__dash__b == 1",
    "has(self.a__dash__b)",
    "self.x__slash__y__dot__z == 2",
    "self.double__underscores__under == 3",
    "self.ratio / 4.0 == 0.5",
    "type(self.ratio) == double",
    "string(self.ratio) == '2'",
    "self.at.getMonth() == 1",
    "self.at > timestamp('2024-01-01T00:00:00Z')",
    "self.wait == duration('60m')",
    "self.data == b'hi'",
    "self.times[0] > self.times[1]",
    "self.times.all(t, t.getFullYear() > 2022)",
    "self.times.map(t, t.getFullYear()) == [2024, 2023]",
    "self.times.filter(t, t.getFullYear() == 2024)[0] == timestamp('2024-01-01T00:00:00Z')",
    "self.times == [timestamp('2024-01-01T00:00:00Z'), timestamp('2023-01-01T00:00:00Z')]",
    "self.times.exists(i, t, i == 1 && t.getFullYear() == 2023)",
    "self.waits['a'] == duration('30s')",
    "self.waits.all(k, self.waits[k] < duration('1m'))",
    "self.waits.all(k, v, v < duration('1m'))",
    "self.tags == ['b', 'a']",
    "self.tags + ['b', 'c'] == ['c', 'b', 'a']",
    "self.?child.?at.orValue(timestamp(0)).getFullYear() == 2024",
    "self.?missing.hasValue() == false || true",
    "self.child.at == timestamp('2024-01-01T00:00:00Z')",
    "[self.child][0].at.getFullYear() == 2024",
    "self.times.max().getFullYear() == 2024",
    "self.child == self.child",
]


@pytest.mark.parametrize("rule", [rule for rule in RULES if "missing" not in rule])
def test_rule_over_typed_data(rule: str) -> None:
    before = repr(DATA)
    assert Env({"self": SPEC}).compile(rule, BOOL)({"self": DATA}) is True
    assert repr(DATA) == before


def test_unknown_fields_are_errors_with_their_place() -> None:
    with pytest.raises(CelCheckError) as caught:
        Env({"self": SPEC}).check("self.child.nope == ''")
    assert (
        str(caught.value)
        == "ERROR: <input>:1:11: undefined field 'nope'\n | self.child.nope == ''\n | ..........^"
    )


def test_absent_fields_are_errors_at_run_time() -> None:
    program = Env({"self": SPEC}).compile("self.child.n > 0")
    with pytest.raises(CelError, match=r"^no such key: child$"):
        program({"self": {}})
    with pytest.raises(CelError, match=r"^no such key: n$"):
        program({"self": {"child": {}}})
    with pytest.raises(CelError, match=r"^no such key: child$"):
        program({"self": {"child": None}})
    with pytest.raises(CelError, match=r"^no such overload$"):
        program({"self": {"child": 5}})


def test_data_that_breaks_its_format_is_an_error() -> None:
    with pytest.raises(CelError):
        Env({"self": SPEC}).compile("self.at.getMonth() == 1")({"self": {"at": "yesterday"}})


def test_the_wanted_result_type_is_checked() -> None:
    with pytest.raises(CelResultError, match="must evaluate to a bool"):
        Env({"self": INT}).check("self + 1", expected=BOOL)


def test_recursive_types_are_resolved_on_demand() -> None:
    def fields() -> Mapping[str, Type]:
        return {"next": node, "at": timestamp_type(), "n": INT}

    node: Type = object_type("node", fields)
    program = Env({"self": node}).compile("self.next.next.n == 3 && self.next == self.next")
    assert program({"self": {"next": {"next": {"n": 3}}}})


def test_objects_are_constructed() -> None:
    spec = object_type("Object.spec", {"replicas": INT, "name": STRING})
    env = Env({"object": DYN}, types=[object_type("Object", {"spec": spec}), spec, JSON_PATCH])
    program = env.compile("Object{spec: Object.spec{replicas: object.n + 1, ?name: optional.none()}}")
    assert program({"object": {"n": 2}}) == {"spec": {"replicas": 3}}
    patch = env.compile("[JSONPatch{op: 'add', path: '/a', value: 1}, JSONPatch{op: 'remove', path: '/b'}]")
    assert patch({"object": {}}) == [{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/b"}]
    with pytest.raises(
        CelCheckError, match="expected type of field 'replicas' is 'int' but provided type is 'string'"
    ):
        env.check("Object{spec: Object.spec{replicas: 'a'}}")
    with pytest.raises(CelCheckError, match="undefined field 'nope'"):
        env.check("Object{nope: 1}")


def test_mutating_policies_construct_anything_below_object() -> None:
    env = Env({"object": DYN}, types=[OBJECT, JSON_PATCH])
    program = env.compile(
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{at: timestamp(0), n: [1u]}}"
    )
    assert to_json(program({"object": {}})) == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"at": "1970-01-01T00:00:00Z", "n": [1]},
    }
    with pytest.raises(CelCheckError, match="undeclared reference to 'Other'"):
        env.check("Other{a: 1}")


def test_dotted_variables_and_mappings_that_compute() -> None:
    class Lazy(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            return len(key)

    variables = object_type("variables", {"abc": INT})
    env = Env({"variables": variables, "authorizer.requestResource": INT})
    assert (
        env.compile("variables.abc + authorizer.requestResource")(
            {"variables": Lazy(), "authorizer.requestResource": 4}
        )
        == 7
    )


@given(st.text(alphabet="abc_-./0", min_size=1, max_size=12))
def test_escapes_round_trip(name: str) -> None:
    escaped = escape(name)
    if escaped is not None:
        assert escaped.isidentifier()
        assert unescape(escaped) == name


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("a__b", "a__underscores__b"),
        ("a.b", "a__dot__b"),
        ("a-b", "a__dash__b"),
        ("a/b", "a__slash__b"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("1a", None),
        ("a b", None),
        ("é", None),
        ("", None),
    ],
)
def test_escape(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped
