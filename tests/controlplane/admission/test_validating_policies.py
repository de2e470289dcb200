"""Validating admission policies: deny, warn and audit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.api.errors import APIError, Forbidden, Invalid, RequestEntityTooLarge
from kubewright.apiserver import User

CONFIG_MAPS = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    ]
}


async def test_a_policy_without_a_binding_does_nothing(cluster: Any) -> None:
    await cluster.policy(
        "Validating", "p", {"matchConstraints": CONFIG_MAPS, "validations": [{"expression": "false"}]}
    )
    await cluster.config_map("a")


async def test_message_reason_and_code_of_denials(cluster: Any) -> None:
    validations = [
        {"expression": "object.metadata.name != 'plain'"},
        {"expression": "object.metadata.name != 'told'", "message": "told so"},
        {
            "expression": "object.metadata.name != 'counted'",
            "messageExpression": "'it has ' + string(object.metadata.name.size())",
            "reason": "Forbidden",
        },
        {
            "expression": "object.metadata.name != 'fallback'",
            "messageExpression": "'two\\nlines'",
            "message": "in one line",
            "reason": "RequestEntityTooLarge",
        },
    ]
    await cluster.policy(
        "Validating",
        "p",
        {"matchConstraints": CONFIG_MAPS, "validations": validations},
        {"validationActions": ["Deny"]},
    )
    await cluster.config_map("fine")
    who = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
    cases: list[tuple[str, type[APIError], int, str]] = [
        ("plain", Invalid, 422, "failed expression: object.metadata.name != 'plain'"),
        ("told", Invalid, 422, "told so"),
        ("counted", Forbidden, 403, "it has 7"),
        ("fallback", RequestEntityTooLarge, 413, "in one line"),
    ]
    for name, kind, code, message in cases:
        with pytest.raises(kind) as excinfo:
            await cluster.config_map(name)
        assert excinfo.value.status_code == code
        assert excinfo.value.message == f'configmaps "{name}" is forbidden: {who}{message}'
        assert excinfo.value.causes == [{"message": who + message}]


async def test_warn_and_audit_actions_allow_the_request(cluster: Any) -> None:
    await cluster.policy(
        "Validating",
        "p",
        {
            "matchConstraints": CONFIG_MAPS,
            "variables": [{"name": "count", "expression": "object.?data.orValue({}).size()"}],
            "validations": [
                {"expression": "variables.count < 2", "messageExpression": "'has ' + string(variables.count)"}
            ],
        },
        {"validationActions": ["Warn", "Audit"]},
    )
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}}
    response = await cluster.send("POST", f"{cluster.core}/configmaps", json.dumps(body).encode())
    assert response.status == 201
    assert response.headers["Warning"] == [
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': has 2\""
    ]


async def test_match_constraints_of_policies(cluster: Any) -> None:
    constraints = {
        **CONFIG_MAPS,
        "objectSelector": {"matchLabels": {"checked": "yes"}},
        "excludeResourceRules": [
            {
                "apiGroups": [""],
                "apiVersions": ["*"],
                "operations": ["*"],
                "resources": ["configmaps"],
                "resourceNames": ["excluded"],
            }
        ],
    }
    await cluster.policy(
        "Validating",
        "p",
        {
            "matchConstraints": constraints,
            "matchConditions": [{"name": "c", "expression": "object.metadata.name != 'exempt'"}],
            "validations": [{"expression": "false"}],
        },
        {
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        },
    )
    await cluster.config_map("unlabelled")
    await cluster.config_map("exempt", labels={"checked": "yes"})
    await cluster.config_map("excluded", labels={"checked": "yes"})
    with pytest.raises(Invalid):
        await cluster.config_map("caught", labels={"checked": "yes"})
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"checked": "yes"}}}
    await cluster.client.create("/api/v1/namespaces/default/configmaps", other)


async def test_expression_variables(cluster: Any) -> None:
    await cluster.policy(
        "Validating",
        "p",
        {
            "matchConstraints": CONFIG_MAPS,
            "validations": [
                {
                    "expression": "request.operation != 'DELETE' || "
                    "namespaceObject.metadata.labels['team'] != "
                    "oldObject.metadata.?labels['team'].orValue('')",
                    "message": "kept",
                },
                {
                    "expression": "request.operation != 'UPDATE' || object.data == oldObject.data",
                    "message": "frozen",
                },
            ],
        },
        {"validationActions": ["Deny"]},
    )
    await cluster.config_map("a", {"k": "v"}, labels={"team": "a"})
    with pytest.raises(Invalid, match="kept"):
        await cluster.client.delete(f"{cluster.core}/configmaps/a")
    with pytest.raises(Invalid, match="frozen"):
        await cluster.client.merge(f"{cluster.core}/configmaps/a", {"data": {"k": "w"}})
    await cluster.client.merge(f"{cluster.core}/configmaps/a", {"metadata": {"labels": None}})
    await cluster.client.delete(f"{cluster.core}/configmaps/a")


async def test_errors_follow_the_failure_policy(cluster: Any) -> None:
    spec = {"matchConstraints": CONFIG_MAPS, "validations": [{"expression": "object.data.missing == 'x'"}]}
    await cluster.policy(
        "Validating", "p", {**spec, "failurePolicy": "Ignore"}, {"validationActions": ["Deny"]}
    )
    await cluster.config_map("a", {})
    await cluster.policy("Validating", "q", spec, {"validationActions": ["Deny"]})
    with pytest.raises(Invalid) as excinfo:
        await cluster.config_map("b", {"k": "v"})
    assert (
        "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
        in excinfo.value.message
    )


async def test_variables_are_lazy(cluster: Any) -> None:
    await cluster.policy(
        "Validating",
        "p",
        {
            "matchConstraints": CONFIG_MAPS,
            "variables": [
                {"name": "broken", "expression": "object.data.missing"},
                {"name": "through", "expression": "variables.broken + '!'"},
            ],
            "validations": [{"expression": "object.metadata.name == 'a' || variables.through == ''"}],
        },
        {"validationActions": ["Deny"]},
    )
    await cluster.config_map("a", {"k": "v"})
    with pytest.raises(Invalid, match='composited variable "through" fails to evaluate'):
        await cluster.config_map("b", {"k": "v"})


@pytest.mark.parametrize("action", ["Allow", "Deny"])
async def test_parameters_by_name(cluster: Any, action: str) -> None:
    await cluster.policy(
        "Validating",
        "p",
        {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["secrets"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "size(object.metadata.name) <= int(params.data.longest)",
                    "messageExpression": "'at most ' + params.data.longest",
                }
            ],
        },
        {"validationActions": ["Deny"], "paramRef": {"name": "limits", "parameterNotFoundAction": action}},
    )
    secrets = f"{cluster.core}/secrets"
    if action == "Deny":
        with pytest.raises(Invalid, match="failed to configure binding: no params found for policy binding"):
            await cluster.make(secrets, "Secret", "long")
    else:
        await cluster.make(secrets, "Secret", "long")
    await cluster.config_map("limits", {"longest": "3"})
    with pytest.raises(Invalid, match="at most 3"):
        await cluster.make(secrets, "Secret", "longer")
    await cluster.client.merge(f"{cluster.core}/configmaps/limits", {"data": {"longest": "6"}})
    await cluster.make(secrets, "Secret", "longer")


async def test_parameters_by_selector_must_all_validate(cluster: Any) -> None:
    await cluster.policy(
        "Validating",
        "p",
        {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["secrets"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != params.data.taken"}],
        },
        {
            "validationActions": ["Deny"],
            "paramRef": {"selector": {"matchLabels": {"list": "yes"}}, "parameterNotFoundAction": "Allow"},
        },
    )
    for name in ("x", "y"):
        await cluster.config_map(name, {"taken": name}, labels={"list": "yes"})
        with pytest.raises(Invalid):
            await cluster.make(f"{cluster.core}/secrets", "Secret", name)
    await cluster.make(f"{cluster.core}/secrets", "Secret", "z")


async def test_authorizer_in_expressions(cluster: Any) -> None:
    await cluster.policy(
        "Validating",
        "p",
        {
            "matchConstraints": CONFIG_MAPS,
            "validations": [
                {
                    "expression": "authorizer.group('').resource('secrets').namespace('ns')"
                    ".check('delete').allowed() "
                    "&& authorizer.requestResource.check('custom').allowed()",
                    "message": "not for you",
                }
            ],
        },
        {"validationActions": ["Deny"]},
    )
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "custom"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]},
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    for user, allowed in (("jane", rules), ("joe", rules[:1])):
        await cluster.make(f"{rbac}/clusterroles", "ClusterRole", user, rules=allowed)
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        await cluster.make(
            f"{rbac}/clusterrolebindings",
            "ClusterRoleBinding",
            user,
            subjects=[subject],
            roleRef={**reference, "name": user},
        )
    codes = {}
    for user in ("jane", "joe"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": user}}
        made = await cluster.send(
            "POST",
            f"{cluster.core}/configmaps",
            json.dumps(body).encode(),
            user=User(user, ("system:authenticated",)),
        )
        codes[user] = made.status
    assert codes == {"jane": 201, "joe": 422}


async def test_policies_do_not_apply_to_admission_objects(cluster: Any) -> None:
    everything = {
        "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    }
    await cluster.policy(
        "Validating",
        "p",
        {"matchConstraints": everything, "validations": [{"expression": "false"}]},
        {"validationActions": ["Deny"]},
    )
    with pytest.raises(Invalid):
        await cluster.config_map("a")
    await cluster.client.delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/p")
    await cluster.config_map("a")


async def test_type_checking_warnings_in_the_status(cluster: Any) -> None:
    constraints = {
        "resourceRules": [
            {
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["deployments"],
            }
        ]
    }
    validations = [
        {"expression": "object.spec.replicas < 3 && object.metadata.name != ''"},
        {"expression": "object.spec.replica < 3"},
    ]
    await cluster.policy("Validating", "p", {"matchConstraints": constraints, "validations": validations})
    await cluster.plane.wait_until_idle()
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p"
    status = (await cluster.client.get(path))["status"]
    assert status["observedGeneration"] == 1
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[1].expression"
    assert warning["warning"].startswith("apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:12:")


async def test_list_doubling_in_variables_is_stopped(cluster: Any) -> None:
    variables = [{"name": "v0", "expression": "[1, 2, 3, 4]"}]
    variables += [
        {"name": f"v{number}", "expression": f"variables.v{number - 1} + variables.v{number - 1}"}
        for number in range(1, 31)
    ]
    spec = {
        "matchConstraints": CONFIG_MAPS,
        "variables": variables,
        "validations": [{"expression": "variables.v30.size() > 0"}],
    }
    await cluster.policy("Validating", "p", spec, {"validationActions": ["Deny"]})
    with pytest.raises(Invalid, match="exceed"):
        await cluster.config_map("a")
