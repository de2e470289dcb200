"""Spans of webhook calls and of admission policies in the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client
from kubewright.controlplane.admission_spans import AdmissionTraces
from kubewright.testing.server import TestServer, start_test_server
from kubewright.tracing import SpanRecorder

GROUP = "admissionregistration.k8s.io"
CONFIG_MAPS = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    ]
}


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("in-process", None, controllers=False) as made:
        yield made


async def create(client: Client, kind: str, name: str, spec: dict[str, Any], version: str = "v1") -> None:
    body = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
    await client.create(Unstructured(body))


async def create_policies(client: Client) -> None:
    await create(
        client,
        "ValidatingAdmissionPolicy",
        "short",
        {
            "matchConstraints": CONFIG_MAPS,
            "validations": [
                {"expression": "object.metadata.name.size() < 4", "message": "the name is too long"}
            ],
        },
    )
    binding = {"policyName": "short", "validationActions": ["Deny"]}
    await create(client, "ValidatingAdmissionPolicyBinding", "short-everywhere", binding)
    mutation = {
        "patchType": "JSONPatch",
        "jsonPatch": {"expression": '[JSONPatch{op: "add", path: "/data", value: {"seen": "yes"}}]'},
    }
    spec = {
        "matchConstraints": CONFIG_MAPS,
        "mutations": [mutation],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
    }
    await create(client, "MutatingAdmissionPolicy", "mark", spec)
    await create(client, "MutatingAdmissionPolicyBinding", "mark-everywhere", {"policyName": "mark"})


async def create_config_map(client: Client, name: str) -> None:
    metadata = {"name": name, "namespace": "default"}
    await client.create(Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))


async def test_policies_are_recorded_with_decision_and_patch(server: TestServer) -> None:
    client = server.client()
    await create_policies(client)
    records: list[dict[str, Any]] = []
    spans = AdmissionTraces(server.plane).spans
    unsubscribe = spans.subscribe(SpanRecorder(lambda type_, record: records.append(record)))
    await create_config_map(client, "abc")
    with pytest.raises(APIError, match="the name is too long"):
        await create_config_map(client, "abcdef")
    by_path = {(each["path"], each["name"]): each for each in records}
    mutated = by_path["MutatingAdmissionPolicy/mark", "abc"]
    assert mutated["type"] == "policy"
    assert [(each["op"], each["path"]) for each in mutated["patch"]] == [("add", "/data")]
    assert mutated["response"]["binding"] == "mark-everywhere"
    assert by_path["ValidatingAdmissionPolicy/short", "abc"]["allowed"]
    denied = by_path["ValidatingAdmissionPolicy/short", "abcdef"]
    assert not denied["allowed"]
    assert denied["message"] == "the name is too long"
    assert denied["response"]["actions"] == ["Deny"]
    assert denied["object"]["data"] == {"seen": "yes"}
    assert denied["user"] == "kubernetes-admin"
    unsubscribe()
    records.clear()
    await create_config_map(client, "xyz")
    assert not records


async def test_failed_webhook_calls_are_recorded(server: TestServer) -> None:
    client = server.client()
    await client.create(
        Unstructured(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "unreachable"},
                "webhooks": [
                    {
                        "name": "check.example.com",
                        "clientConfig": {"url": "https://127.0.0.1:1/check"},
                        "rules": CONFIG_MAPS["resourceRules"],
                        "failurePolicy": "Ignore",
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                    }
                ],
            }
        )
    )
    records: list[dict[str, Any]] = []
    AdmissionTraces(server.plane).spans.subscribe(SpanRecorder(lambda type_, record: records.append(record)))
    await create_config_map(client, "abc")
    (record,) = records
    assert (record["type"], record["path"]) == ("validating", "https://127.0.0.1:1/check")
    assert "connection refused" in record["error"]
    assert (record["kind"], record["name"], record["operation"]) == ("ConfigMap", "abc", "CREATE")
