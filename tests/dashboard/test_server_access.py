"""The RBAC graph, and why a request is allowed or denied."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.unstructured import Unstructured
from kubewright.client import Client

from .conftest import Browser

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def rules(client: Client) -> None:
    role = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
    binding = {
        "subjects": [
            {"kind": "User", "name": "jane", "apiGroup": RBAC},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
        ],
        "roleRef": {"kind": "Role", "name": "reader", "apiGroup": RBAC},
    }
    missing = {**binding, "roleRef": {"kind": "ClusterRole", "name": "missing", "apiGroup": RBAC}}
    for kind, name, body in (
        ("Role", "reader", role),
        ("RoleBinding", "a", binding),
        ("RoleBinding", "b", missing),
    ):
        metadata = {"name": name, "namespace": "default"}
        await client.create(
            Unstructured({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **body})
        )


async def ask(browser: Browser, **question: Any) -> Any:
    status, body = await browser.status("/api/access/why", "POST", json=question)
    assert status == 200, body
    return body


@pytest.mark.usefixtures("rules")
async def test_the_graph_has_subjects_bindings_and_roles(browser: Browser) -> None:
    graph = await browser.get("/api/access?subject=jane")
    assert [each["id"] for each in graph["subjects"]] == ["User/jane"]
    bindings = {each["id"]: each for each in graph["bindings"]}
    assert bindings["RoleBinding/default/a"]["role"] == "Role/default/reader"
    roles = {each["id"]: each for each in graph["roles"]}
    assert roles["Role/default/reader"]["rules"][0]["resources"] == ["pods"]
    assert roles["ClusterRole/missing"]["missing"]
    names = [each["name"] for each in (await browser.get("/api/access"))["subjects"]]
    assert "robot" in names
    assert not any(name.startswith("system:") for name in names)
    everything = await browser.get("/api/access?system=1")
    assert "Group/system:masters" in [each["id"] for each in everything["subjects"]]


@pytest.mark.usefixtures("rules")
async def test_why_names_the_rule_or_what_is_missing(browser: Browser) -> None:
    allowed = await ask(browser, user="jane", verb="get", resource="pods", namespace="default")
    assert allowed["allowed"]
    assert allowed["source"] == "cluster"
    assert 'RoleBinding "a/default"' in allowed["reason"]
    assert allowed["rules"][0]["role"] == "Role/default/reader"
    denied = await ask(browser, user="jane", verb="delete", resource="pods", namespace="default")
    assert not denied["allowed"]
    assert denied["nearest"][0]["differs"] == ["verb"]
    assert "Role/default/reader" in denied["advice"]
    assert 'verbs ["delete"]' in denied["advice"]
    elsewhere = await ask(browser, user="jane", verb="get", resource="pods", namespace="kube-system")
    assert not elsewhere["allowed"]
    assert "RoleBinding/default/a" not in elsewhere["bindings"]
    account = "system:serviceaccount:default:robot"
    assert (await ask(browser, user=account, verb="get", resource="pods", namespace="default"))["allowed"]
    paths = await ask(browser, user="jane", verb="get", path="/metrics")
    assert "nonResourceURLs" in paths["advice"]


async def test_an_incomplete_question_is_an_error(browser: Browser) -> None:
    for question in ({"user": "jane"}, {"user": 1, "verb": "get", "resource": "pods"}, []):
        status, body = await browser.status("/api/access/why", "POST", json=question)
        assert status == 400, body
