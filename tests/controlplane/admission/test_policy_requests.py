"""The CEL variable `request` of policies, and which requests policies see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.api.errors import Invalid

EVENT = {"involvedObject": {"kind": "ConfigMap", "namespace": "ns", "name": "c"}, "reason": "Tested"}


def rule(*resources: str, operations: tuple[str, ...] = ("*",), **fields: Any) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": list(operations),
            "resources": list(resources),
            **fields,
        }
    ]
    return {"resourceRules": rules}


async def warn(cluster: Any, message: str, *resources: str, **fields: Any) -> None:
    """Create a policy that warns with a CEL message about all requests for some resources."""
    validation = {"expression": "false", "messageExpression": message}
    spec = {"matchConstraints": rule(*resources, **fields), "validations": [validation]}
    await cluster.policy("Validating", "p", spec, {"validationActions": ["Warn"]})


async def sent(cluster: Any, method: str, path: str, body: Any = None, media: str = "") -> list[str]:
    """Send a request and return the messages of the policy."""
    data = json.dumps(body).encode() if body is not None else b""
    response = await cluster.send(method, path, data, media=media or "application/json")
    assert response.status < 400, response.body
    warnings = [text.partition("': ")[2] for text in response.headers.get("Warning", [])]
    return [text.rstrip('"') for text in warnings if text]


async def test_options_are_those_of_the_operation(cluster: Any) -> None:
    await cluster.config_map("a")
    await warn(cluster, "request.operation + ' ' + request.options.kind", "configmaps")
    maps = f"{cluster.core}/configmaps"
    merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    assert await sent(cluster, "PATCH", f"{maps}/a", {"data": {"k": "v"}}, merge) == ["UPDATE UpdateOptions"]
    created = await sent(cluster, "PATCH", f"{maps}/b?fieldManager=m&force=true", body, apply)
    assert created == ["CREATE CreateOptions"]
    assert await sent(cluster, "PUT", f"{maps}/b", body) == ["UPDATE UpdateOptions"]
    assert await sent(cluster, "DELETE", f"{maps}/b") == ["DELETE DeleteOptions"]


async def test_a_namespace_is_in_the_namespace_of_its_own_name(cluster: Any) -> None:
    await warn(cluster, "request.namespace + ' ' + request.name", "namespaces")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    assert await sent(cluster, "POST", "/api/v1/namespaces", body) == ["new new"]
    assert await sent(cluster, "DELETE", "/api/v1/namespaces/new") == ["new new"]


async def test_a_binding_has_the_name_of_its_pod(cluster: Any) -> None:
    await cluster.pod("p")
    await warn(cluster, "request.name", "bindings")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    assert await sent(cluster, "POST", f"{cluster.core}/bindings", body) == ["p"]


async def test_webhook_configurations_are_evaluated_and_policies_and_reviews_are_exempt(cluster: Any) -> None:
    await warn(cluster, "request.resource.resource", "*")
    group = "admissionregistration.k8s.io/v1"
    hook = {"apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}}
    found = await sent(cluster, "POST", f"/apis/{group}/validatingwebhookconfigurations", hook)
    assert found == ["validatingwebhookconfigurations"]
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "w"},
        "spec": {"policyName": "x", "validationActions": ["Warn"]},
    }
    assert await sent(cluster, "POST", f"/apis/{group}/validatingadmissionpolicybindings", binding) == []
    reviews = [
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview", {"nonResourceAttributes": {"verb": "get"}}),
        ("authentication.k8s.io/v1", "TokenReview", {"token": "x"}),
        ("authentication.k8s.io/v1", "SelfSubjectReview", {}),
    ]
    for version, kind, spec in reviews:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        assert await sent(cluster, "POST", f"/apis/{version}/{kind.lower()}s", body) == []


async def test_resource_names_of_mutating_policies_match_creates(cluster: Any) -> None:
    text = "Object{metadata: Object.metadata{labels: {'seen': request.operation}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    spec = {
        "reinvocationPolicy": "Never",
        "matchConstraints": rule("configmaps", operations=("CREATE",), resourceNames=["named"]),
        "mutations": [mutation],
    }
    await cluster.policy("Mutating", "p", spec, {})
    assert (await cluster.config_map("named"))["metadata"]["labels"] == {"seen": "CREATE"}
    assert "labels" not in (await cluster.config_map("other"))["metadata"]


async def test_connect_has_the_options_of_the_stream_as_object(cluster: Any) -> None:
    await cluster.pod("p")
    message = "request.kind.kind + ' ' + object.command[1] + ' ' + (request.options == null ? 'null' : 'set')"
    validation = {"expression": "false", "messageExpression": message}
    spec = {"matchConstraints": rule("pods/exec"), "validations": [validation]}
    await cluster.policy("Validating", "p", spec, {"validationActions": ["Deny"]})
    with pytest.raises(Invalid, match="PodExecOptions -l null"):
        await cluster.client.send("POST", f"{cluster.core}/pods/p/exec?command=ls&command=-l&stdin=1")


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
async def test_events_match_in_both_groups(cluster: Any, group: str) -> None:
    field = "regarding" if group else "involvedObject"
    spec = {
        "matchConstraints": rule("events", apiGroups=[group], apiVersions=["v1"]),
        "validations": [{"expression": f"object.{field}.name != 'c'", "message": "seen"}],
    }
    await cluster.policy("Validating", "p", spec, {"validationActions": ["Deny"]})
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, **EVENT}
    with pytest.raises(Invalid, match="seen"):
        await cluster.client.create(f"{cluster.core}/events", body)


async def test_a_mutating_policy_changes_events_through_the_other_group(cluster: Any) -> None:
    text = "Object{note: 'changed'}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    spec = {
        "reinvocationPolicy": "Never",
        "matchConstraints": rule("events", operations=("CREATE",), apiGroups=["events.k8s.io"]),
        "mutations": [mutation],
    }
    await cluster.policy("Mutating", "p", spec, {})
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, **EVENT}
    made = await cluster.client.create(f"{cluster.core}/events", body)
    assert (made["message"], made["apiVersion"], made["involvedObject"]["name"]) == ("changed", "v1", "c")
