"""Metrics of kube-apiserver: names and labels of those that dashboards and alerts use."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import APIError
from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
LABELS = {
    "apiserver_admission_controller_admission_duration_seconds": {"name", "operation", "rejected", "type"},
    "apiserver_admission_step_admission_duration_seconds": {"operation", "rejected", "type"},
    "apiserver_admission_webhook_admission_duration_seconds": {"name", "operation", "rejected", "type"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_request_total": {"code", "name", "operation", "rejected", "type"},
    "apiserver_request_duration_seconds": {
        *("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
    },
    "apiserver_request_total": {
        *("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"),
    },
    "apiserver_requested_deprecated_apis": {
        *("group", "version", "resource", "subresource", "removed_release"),
    },
    "apiserver_response_sizes": {
        *("verb", "group", "version", "resource", "subresource", "scope", "component"),
    },
    "apiserver_validating_admission_policy_check_total": {
        *("enforcement_action", "error_type", "policy", "policy_binding"),
    },
    "kubernetes_build_info": {
        *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version"),
        *("compiler", "platform"),
    },
}
"""STABLE and BETA metrics of kube-apiserver 1.36, and their labels."""


async def samples(plane: ControlPlane) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return labels and values of the samples by name."""
    response = await plane.server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families((await response.read()).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def webhook() -> dict[str, Any]:
    """Return a webhook that cannot be reached, and does not matter."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    return {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }


async def test_metrics_have_the_names_and_labels_of_kube_apiserver() -> None:
    async with ControlPlane(port=None) as plane:
        client = PathClient(plane.server, SYSTEM, user_agent="test")
        await client.create(
            f"{POLICIES}/validatingwebhookconfigurations",
            {"metadata": {"name": "hooks"}, "webhooks": [webhook()]},
        )
        rules = [{key: webhook()["rules"][0][key] for key in webhook()["rules"][0]}]
        spec = {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "!has(object.data)"}],
        }
        await client.create(
            f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}
        )
        await client.create(
            f"{POLICIES}/validatingadmissionpolicybindings",
            {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}},
        )
        await plane.wait_until_idle()
        await client.create(f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "a"}})
        with pytest.raises(APIError):
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        await client.get("/api/v1/namespaces/default/endpoints")
        found = await samples(plane)

        def value(name: str, /, **labels: str) -> float:
            return sum(number for each, number in found[name] if labels.items() <= each.items())

        for name, labels in LABELS.items():
            shown = found[name if name.endswith(("_total", "_apis", "_info", "_count")) else f"{name}_count"]
            assert {frozenset(each) for each, _ in shown} == {frozenset(labels)}, name
        prefix = "apiserver_admission_"
        rejected = {"operation": "CREATE", "rejected": "true", "type": "validate"}
        assert value(f"{prefix}step_admission_duration_seconds_count", **rejected) == 1
        plugin = {**rejected, "name": "ValidatingAdmissionPolicy"}
        assert value(f"{prefix}controller_admission_duration_seconds_count", **plugin) == 1
        hook = {"name": "hook.example.com", "rejected": "false", "type": "validating"}
        assert value(f"{prefix}webhook_admission_duration_seconds_count", **hook) >= 1
        assert value(f"{prefix}webhook_request_total", code="500", **hook) >= 1
        assert value(f"{prefix}webhook_fail_open_count", name="hook.example.com") >= 1
        checked = {"policy": "p", "policy_binding": "b", "enforcement_action": "deny"}
        checked["error_type"] = "invalid_error"
        assert value("apiserver_validating_admission_policy_check_total", **checked) == 1
        assert value("apiserver_request_total", resource="configmaps", dry_run="All") == 1
        assert value("apiserver_requested_deprecated_apis", resource="endpoints", version="v1") == 1
