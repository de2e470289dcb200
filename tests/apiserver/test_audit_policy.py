"""Audit policies: which rule matches, and what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubewright.apiserver import User
from kubewright.apiserver.audit import AuditLevel, AuditPolicy
from kubewright.apiserver.authorization import AuthorizationAttributes


def attributes(verb: str = "get", **fields: str) -> AuthorizationAttributes:
    return AuthorizationAttributes(User("jane", ("dev", "system:authenticated")), verb, **fields)


def level(rule: dict[str, Any], request: AuthorizationAttributes) -> AuditLevel:
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", **rule}]}
    return AuditPolicy.parse(policy).evaluate(request).level


PODS = attributes(version="v1", resource="pods", namespace="default", name="a")
LOGS = PODS._replace(subresource="log")
NODES = attributes(version="v1", resource="nodes", name="n")
HEALTH = attributes(path="/healthz/etcd")


@pytest.mark.parametrize(
    ("rule", "matches", "others"),
    [
        ({}, [PODS, LOGS, NODES, HEALTH], []),
        ({"users": ["jane"]}, [PODS, HEALTH], []),
        ({"users": ["bob"]}, [], [PODS, HEALTH]),
        ({"userGroups": ["dev"]}, [PODS], []),
        ({"userGroups": ["ops"]}, [], [PODS]),
        ({"verbs": ["get", "list"]}, [PODS], [PODS._replace(verb="watch")]),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, [PODS], [LOGS, NODES, HEALTH]),
        ({"resources": [{"group": "", "resources": ["pods/log"]}]}, [LOGS], [PODS]),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, [LOGS, PODS], [NODES]),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, [LOGS], [PODS, NODES]),
        ({"resources": [{"group": "", "resources": ["*"]}]}, [LOGS, PODS, NODES], [HEALTH]),
        ({"resources": [{"group": ""}]}, [LOGS, PODS], [PODS._replace(group="apps")]),
        ({"resources": [{"group": "*"}]}, [PODS._replace(group="apps")], [HEALTH]),
        (
            {"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["a"]}]},
            [PODS],
            [PODS._replace(name="b")],
        ),
        ({"namespaces": ["default"]}, [PODS, LOGS], [NODES, HEALTH]),
        ({"namespaces": [""]}, [NODES], [PODS, HEALTH]),
        ({"nonResourceURLs": ["/healthz*"]}, [HEALTH], [PODS, attributes(path="/version")]),
        ({"nonResourceURLs": ["/healthz"]}, [], [HEALTH]),
        ({"nonResourceURLs": ["*"]}, [HEALTH], [PODS]),
    ],
)
def test_rules_match_by_user_verb_and_resource(
    rule: dict[str, Any], matches: list[AuthorizationAttributes], others: list[AuthorizationAttributes]
) -> None:
    assert [level(rule, request) for request in matches] == [AuditLevel.METADATA] * len(matches)
    assert [level(rule, request) for request in others] == [AuditLevel.NONE] * len(others)


def test_the_first_rule_counts_and_stages_add_up() -> None:
    policy = AuditPolicy.parse(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "omitManagedFields": True,
            "rules": [
                {"level": "None", "users": ["bob"]},
                {"level": "Request", "verbs": ["get"], "omitStages": ["Panic"], "omitManagedFields": False},
                {"level": "RequestResponse"},
            ],
        }
    )
    found = policy.evaluate(PODS)
    assert found.level is AuditLevel.REQUEST
    assert found.omit_stages == {"RequestReceived", "Panic"}
    assert not found.omit_managed_fields
    found = policy.evaluate(PODS._replace(verb="list"))
    assert found.level is AuditLevel.REQUEST_RESPONSE
    assert found.omit_managed_fields
    assert policy.evaluate(PODS, authenticated=False).level is AuditLevel.REQUEST


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected an object of apiVersion audit.k8s.io/v1 and kind Policy"),
        ("kind: Policy", "expected apiVersion audit.k8s.io/v1 and kind Policy, not None, Policy"),
        ("a: {", "is not valid YAML"),
        ("rules: []", "a policy needs at least one rule"),
        ("rules: [{}]", r"rules\[0\].level: Required value"),
        ("rules: [{level: All}]", r'rules\[0\].level: Unsupported value: "All"'),
        ("rules: [{level: None, users: 1}]", "Expected `array`, got `int`"),
        ("rules: [{level: None, nonResourceURLs: [healthz]}]", "must begin with a '/' character"),
        ("rules: [{level: None, nonResourceURLs: ['/a*b']}]", "must be the final character"),
        ("rules: [{level: None, nonResourceURLs: [/a], namespaces: [b]}]", "cannot apply to both"),
        ("rules: [{level: None, resources: [{resourceNames: [a]}]}]", "requires at least one resource"),
        ("rules: [{level: None, resources: [{group: apps/v1}]}]", "must be a DNS subdomain"),
        ("omitStages: [Now]\nrules: [{level: None}]", r'omitStages\[0\]: Invalid value: "Now"'),
    ],
)
def test_errors_name_the_file_and_the_field(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    head = "" if text.startswith(("[", "kind", "a")) else "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
    path.write_text(head + text)
    with pytest.raises(ValueError, match=message) as raised:
        AuditPolicy.from_file(path)
    assert str(path) in str(raised.value)


def test_unknown_fields_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    level({"resource": ["pods"]}, PODS)
    (record,) = [each for each in caplog.records if each.name.startswith("kubewright.apiserver")]
    assert record.message == "ignored unknown fields of the audit policy"
    assert record.__dict__["fields"] == ["rules[0].resource"]
