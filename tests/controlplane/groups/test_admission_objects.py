"""Webhook configurations and admission policies as objects: defaults and validation."""

from __future__ import annotations

from typing import Any

import pytest

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
Object = dict[str, Any]


def new_object(kind: str, **fields: Any) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "a"},
        **fields,
    }


def hook(**fields: Any) -> Object:
    url = {"url": "https://127.0.0.1:1/x"}
    given = {
        "name": "a.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": url,
    }
    return {**given, **fields}


def policy(**spec: Any) -> Object:
    return new_object(
        "ValidatingAdmissionPolicy", spec={"matchConstraints": {"resourceRules": [RULE]}, **spec}
    )


def mutating(*mutations: Object, **spec: Any) -> Object:
    constraints = {"resourceRules": [RULE]}
    given = {"matchConstraints": constraints, "reinvocationPolicy": "Never", "mutations": list(mutations)}
    return new_object("MutatingAdmissionPolicy", spec={**given, **spec})


async def test_webhooks_are_defaulted(api: Any) -> None:
    service = {"service": {"name": "s", "namespace": "n"}}
    body = new_object("MutatingWebhookConfiguration", webhooks=[hook(rules=[RULE], clientConfig=service)])
    response = await api.ok("POST", f"{GROUP}/mutatingwebhookconfigurations?dryRun=All", body)
    assert response["metadata"]["generation"] == 1
    (found,) = response["webhooks"]
    assert found["clientConfig"]["service"]["port"] == 443
    assert found["rules"][0]["scope"] == "*"
    assert (found["failurePolicy"], found["matchPolicy"], found["timeoutSeconds"]) == (
        "Fail",
        "Equivalent",
        10,
    )
    assert found["namespaceSelector"] == found["objectSelector"] == {}
    assert found["reinvocationPolicy"] == "Never"


HOOKS: list[tuple[Object, set[str]]] = [
    ({"name": "short"}, {"name"}),
    ({"sideEffects": "Some"}, {"sideEffects"}),
    ({"timeoutSeconds": 31}, {"timeoutSeconds"}),
    ({"admissionReviewVersions": ["v9"]}, {"admissionReviewVersions"}),
    ({"clientConfig": {}}, {"clientConfig"}),
    ({"clientConfig": {"url": "http://u@h/p?q#f"}}, {"clientConfig.url"}),
    (
        {"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "x//y"}}},
        {"clientConfig.service.path"},
    ),
    ({"rules": [{**RULE, "resources": ["*/*", "pods"]}]}, {"rules[0].resources"}),
    ({"rules": [{**RULE, "resources": ["pods/*", "pods/status"]}]}, {"rules[0].resources[1]"}),
    ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, {"rules[0].operations"}),
    ({"matchConditions": [{"name": "x", "expression": "object."}]}, {"matchConditions[0].expression"}),
    ({"matchConditions": [{"name": "x", "expression": "params.y"}]}, {"matchConditions[0].expression"}),
]


@pytest.mark.parametrize(
    ("fields", "invalid_fields"), HOOKS, ids=[str(number) for number in range(len(HOOKS))]
)
async def test_invalid_webhooks_are_rejected(api: Any, fields: Object, invalid_fields: set[str]) -> None:
    body = new_object("ValidatingWebhookConfiguration", webhooks=[hook(**fields)])
    found = await api.invalid_fields("POST", f"{GROUP}/validatingwebhookconfigurations", body)
    assert found == {f"webhooks[0].{name}" for name in invalid_fields}


POLICIES: list[tuple[Object, set[str]]] = [
    (policy(), {"spec.validations", "spec.auditAnnotations"}),
    (policy(validations=[{"expression": "1 + 1"}]), {"spec.validations[0].expression"}),
    (policy(validations=[{"expression": "params.x"}]), {"spec.validations[0].expression"}),
    (policy(validations=[{"expression": "true", "reason": "Unknown"}]), {"spec.validations[0].reason"}),
    (
        policy(
            variables=[{"name": "in", "expression": "1"}, {"name": "x", "expression": "1"}],
            validations=[{"expression": "variables.x == 1", "messageExpression": "variables.x"}],
        ),
        {"spec.variables[0].name", "spec.validations[0].messageExpression"},
    ),
    (
        policy(auditAnnotations=[{"key": "k", "valueExpression": "1"}]),
        {"spec.auditAnnotations[0].valueExpression"},
    ),
    (mutating(), {"spec.mutations"}),
    (
        mutating({"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}),
        {"spec.mutations[0].jsonPatch", "spec.mutations[0].applyConfiguration"},
    ),
    (
        mutating({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}}),
        {"spec.mutations[0].applyConfiguration.expression"},
    ),
    (new_object("ValidatingAdmissionPolicyBinding", spec={}), {"spec.policyName", "spec.validationActions"}),
    (
        new_object(
            "ValidatingAdmissionPolicyBinding",
            spec={"policyName": "p", "validationActions": ["Deny", "Warn"], "paramRef": {"name": "x"}},
        ),
        {"spec.validationActions", "spec.paramRef.parameterNotFoundAction"},
    ),
]
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
}


@pytest.mark.parametrize(
    ("body", "invalid_fields"), POLICIES, ids=[str(number) for number in range(len(POLICIES))]
)
async def test_invalid_policies_are_rejected(api: Any, body: Object, invalid_fields: set[str]) -> None:
    assert await api.invalid_fields("POST", f"{GROUP}/{PLURALS[body['kind']]}", body) == invalid_fields


async def test_valid_policies_are_accepted(api: Any) -> None:
    path = f"{GROUP}/validatingadmissionpolicies"
    body = policy(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "limit", "expression": "int(params.data.limit)"}],
        validations=[
            {
                "expression": "size(object.metadata.name) < variables.limit",
                "messageExpression": "'at most ' + string(variables.limit)",
            }
        ],
    )
    response = await api.ok("POST", path, body)
    assert response["spec"]["failurePolicy"] == "Fail"
    assert response["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert await api.cells(f"{path}/a") == ["a", 1, "v1/ConfigMap"]
    expression = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"
    patch = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    await api.ok("POST", f"{GROUP}/mutatingadmissionpolicies", mutating(patch))


async def test_unchanged_match_conditions_are_not_validated_again(api: Any) -> None:
    path = f"{GROUP}/validatingwebhookconfigurations"
    condition = [{"name": "x", "expression": "object.metadata.name == 'y'"}]
    await api.ok(
        "POST", path, new_object("ValidatingWebhookConfiguration", webhooks=[hook(matchConditions=condition)])
    )
    changed = await api.ok("PATCH", f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["generation"] == 1
