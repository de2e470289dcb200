"""CEL rules of a schema: when they are evaluated, and their error messages."""

# ruff: noqa: E501 - tables of cases read better in one line

from __future__ import annotations

from typing import Any

from kubewright.schema import RuleRun, SchemaVersion
from kubewright.schema.structural import Node
from kubewright.schema.validation.rules import compile_rules

INT = {"type": "integer"}
STRING = {"type": "string"}


def version(properties: dict[str, Any], *rules: dict[str, Any], **more: Any) -> SchemaVersion:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules), **more}
    return SchemaVersion({"type": "object", "properties": {"spec": spec}})


def errors(schema: SchemaVersion, spec: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [str(error) for error in schema.validate({"spec": spec}, before).errors]


def test_failure_messages() -> None:
    properties = {"min": INT, "max": INT, "s": STRING}
    spec = {"min": 2, "max": 1, "s": "x"}
    assert errors(version(properties, {"rule": "self.min <= self.max"}), spec) == [
        "spec: Invalid value: failed rule: self.min <= self.max"
    ]
    assert errors(version(properties, {"rule": "false", "message": " say "}), spec) == [
        "spec: Invalid value: say"
    ]
    computed = {"rule": "false", "messageExpression": "'max is ' + string(self.max)", "message": "m"}
    assert errors(version(properties, computed), spec) == ["spec: Invalid value: max is 1"]
    failing = {"rule": "false", "messageExpression": "string(1 / (self.max - 1))", "message": "m"}
    assert errors(version(properties, failing), spec) == ["spec: Invalid value: m"]
    placed = {"rule": "false", "reason": "FieldValueForbidden", "fieldPath": ".s", "message": "no"}
    assert errors(version(properties, placed), spec) == ["spec.s: Forbidden: no"]
    required = {"rule": "false", "reason": "FieldValueRequired", "message": "no"}
    assert errors(version(properties, required), spec) == ["spec: Required value: no"]
    scalar = {
        "s": {
            **STRING,
            "x-kubernetes-validations": [{"rule": "self == 'a'", "reason": "FieldValueDuplicate"}],
        }
    }
    assert errors(version(scalar), {"s": "x"}) == ['spec.s: Duplicate value: "x"']


def test_evaluation_errors_name_the_rule() -> None:
    schema = version(
        {"n": INT, "p": {"x-kubernetes-int-or-string": True}},
        {"rule": "1 / self.n > 0", "message": "division"},
    )
    assert errors(schema, {"n": 0}) == [
        'spec: Invalid value: "object": division by zero evaluating rule: division'
    ]
    missing = version({"n": INT}, {"rule": "self.n > 0"})
    assert errors(missing, {}) == [
        'spec: Invalid value: "object": no such key: n evaluating rule: self.n > 0'
    ]


def test_rules_wait_for_a_valid_object() -> None:
    schema = version({"n": INT}, {"rule": "self.n > 0"})
    skipped = (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )
    assert errors(schema, {"n": "x"})[-1] == skipped
    bounded = version({"n": {**INT, "maximum": 3}}, {"rule": "self.n < 0"})
    assert errors(bounded, {"n": 4}) == [
        "spec.n: Invalid value: 4: spec.n in body should be less than or equal to 3",
        "spec: Invalid value: failed rule: self.n < 0",
    ]


def test_transition_rules_need_an_old_value() -> None:
    schema = version({"n": INT}, {"rule": "self.n >= oldSelf.n", "message": "grows"})
    assert errors(schema, {"n": 1}) == []
    assert errors(schema, {"n": 1}, {"n": 2}) == ["spec: Invalid value: grows"]
    optional = version(
        {"n": INT},
        {"rule": "oldSelf.hasValue() || self.n < 5", "optionalOldSelf": True, "message": "start small"},
    )
    assert errors(optional, {"n": 9}) == ["spec: Invalid value: start small"]
    assert errors(optional, {"n": 9}, {"n": 1}) == []


def test_list_map_elements_are_correlated_by_key() -> None:
    item = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": STRING, "v": INT},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "grows"}],
    }
    items = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": item,
    }
    schema = version({"l": items})
    old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}
    assert errors(schema, {"l": [{"k": "b", "v": 4}, {"k": "a", "v": 2}, {"k": "c", "v": 0}]}, old) == [
        "spec.l[0]: Invalid value: grows"
    ]


def test_unchanged_values_only_warn() -> None:
    schema = version({"a": {**STRING, "x-kubernetes-validations": [{"rule": "self == 'ok'"}]}, "b": STRING})
    verdict = schema.validate({"spec": {"a": "old", "b": "new"}}, {"spec": {"a": "old"}})
    assert verdict.errors == []
    assert verdict.warnings == ["spec.a: Invalid value: \"old\": failed rule: self == 'ok'"]
    assert errors(schema, {"a": "newer"}, {"a": "old"}) != []


def test_name_and_type_are_visible_at_the_root() -> None:
    rules = [
        {"rule": "self.metadata.name.size() < 4 && self.kind == 'K' && !has(self.metadata.generateName)"}
    ]
    schema = SchemaVersion({"type": "object", "x-kubernetes-validations": rules})
    assert schema.validate({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "abc"}}).errors == []
    assert [error.field for error in schema.validate({"kind": "K", "metadata": {"name": "long"}}).errors] == [
        "<nil>"
    ]


def test_formats_are_converted_and_names_escaped() -> None:
    properties = {
        "at": {**STRING, "format": "date-time"},
        "for": {**STRING, "format": "duration"},
        "a-b": STRING,
        "in": INT,
    }
    schema = version(
        properties,
        {"rule": "self.at > timestamp('2000-01-01T00:00:00Z')"},
        {"rule": "self.__for__ < duration('1h')"},
        {"rule": "self.a__dash__b == 'x' && self.__in__ == 1"},
    )
    assert errors(schema, {"at": "2001-01-01T00:00:00Z", "for": "5m", "a-b": "x", "in": 1}) == []
    assert len(errors(schema, {"at": "1999-01-01T00:00:00Z", "for": "2h", "a-b": "y", "in": 1})) == 3


def test_nulls_are_skipped() -> None:
    schema = version({"a": {**STRING, "nullable": True, "x-kubernetes-validations": [{"rule": "false"}]}})
    assert errors(schema, {"a": None}) == []


def test_the_budget_stops_expensive_rules() -> None:
    numbers = {"type": "array", "items": INT}
    cartesian = {"rule": "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))"}
    verdict = errors(version({"l": numbers}, cartesian), {"l": list(range(300))})
    assert verdict == [
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation "
        f"rules will be run due to call cost exceeds limit for rule: {cartesian['rule']}"
    ]
    node = Node(
        {
            "type": "object",
            "properties": {"l": {**numbers, "x-kubernetes-validations": [{"rule": "self.all(x, x >= 0)"}]}},
        }
    )
    run = RuleRun(limit=10).validate(node, {"l": list(range(100))})
    assert [error.message for error in run.errors] == [
        'Invalid value: "array": validation failed due to running out of cost budget, '
        "no further validation rules will be run"
    ]


def test_constants_that_cannot_be_converted_are_found_with_the_rule() -> None:
    literal = Node({"x-kubernetes-validations": [{"rule": "bool('maybe')"}], **STRING})
    assert compile_rules(literal)[0].problem == (
        "program instantiation failed: type conversion error from 'string' to 'bool'"
    )
    message = {"rule": "true", "messageExpression": "string(int('x'))"}
    computed = Node({"x-kubernetes-validations": [message], **STRING})
    assert compile_rules(computed)[0].message_problem == (
        "messageExpression instantiation failed: type conversion error from 'string' to 'int'"
    )


def test_null_fields_are_absent_but_null_map_values_are_present() -> None:
    nullable = {**STRING, "nullable": True}
    inner = {"type": "object", "nullable": True, "properties": {"b": nullable}}
    properties = {
        "a": nullable,
        "o": inner,
        "m": {"type": "object", "maxProperties": 3, "additionalProperties": nullable},
    }

    def passes(rule: str, spec: Any) -> bool:
        return not errors(version(properties, {"rule": rule}), spec)

    nulls = {"a": None, "o": None, "m": {"k": None}}
    assert passes("!has(self.a) && !has(self.o)", nulls)
    assert passes("self.?a.orValue('none') == 'none' && self.?o.?b.orValue('none') == 'none'", nulls)
    assert passes("!has(self.o.b) && self.o.?b.orValue('none') == 'none'", {"o": {"b": None}})
    assert passes("'k' in self.m && self.m.size() == 1", nulls)
    missing = version(properties, {"rule": "self.o.b == 'x'"})
    assert errors(missing, nulls) == [
        "spec: Invalid value: \"object\": no such key: o evaluating rule: self.o.b == 'x'"
    ]
