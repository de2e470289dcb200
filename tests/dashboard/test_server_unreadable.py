"""A user with few permissions: what it cannot read is unknown, never absent, denied or healthy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client
from kubewright.dashboard import Dashboard
from kubewright.testing.server import TestServer

from .conftest import Browser, browse

RBAC = "rbac.authorization.k8s.io"


async def create(client: Client, api_version: str, kind: str, name: str, **fields: Any) -> Any:
    metadata = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
    return await client.create(
        Unstructured({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})
    )


@pytest.fixture
async def jane(server: TestServer, client: Client) -> AsyncIterator[Browser]:
    """A dashboard of a user who may read the ConfigMaps of one namespace, and nothing else."""
    rule = {"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["configmaps"]}
    await create(client, f"{RBAC}/v1", "Role", "jane", rules=[rule])
    subjects = [{"kind": "User", "name": "jane", "apiGroup": RBAC}]
    role = {"kind": "Role", "name": "jane", "apiGroup": RBAC}
    await create(client, f"{RBAC}/v1", "RoleBinding", "jane", subjects=subjects, roleRef=role)
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "hidden", "uid": "1-2-3"}
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "4-5-6"}
    await create(client, "v1", "ConfigMap", "visible", metadata={"ownerReferences": [owner, gone]})
    transport = InProcessTransport(server.plane.server, User("jane", ("system:authenticated",)))
    async with browse(Dashboard(Client.from_transport(transport))) as browser:
        yield browser


async def test_unreadable_kinds_and_events_are_named(jane: Browser) -> None:
    overview = await jane.get("/api/overview")
    kinds = {kind["kind"]: kind for kind in overview["kinds"]}
    assert kinds["ConfigMap"]["count"] >= 1
    assert (kinds["ConfigMap"]["error"], kinds["ConfigMap"]["scope"]) == ("", "default")
    assert "cannot list resource" in kinds["Secret"]["error"]
    assert "cannot list resource" in overview["warningsError"]
    assert "Secret" in (await jane.get("/api/objects?health=Failed"))["unreadable"]
    assert (await jane.get("/api/info"))["cluster"]["namespace"] == "default"


async def test_an_unreadable_owner_is_not_reported_as_missing(jane: Browser) -> None:
    tree = await jane.get("/api/tree?version=v1&kind=ConfigMap&namespace=default&name=visible")
    states = {node["name"]: node["state"] for node in tree["nodes"]}
    assert states == {"visible": "exists", "hidden": "unreadable", "gone": "missing"}
    for path, state in {
        "kind=Secret&namespace=default": "unreadable",
        "kind=ConfigMap&namespace=default": "missing",
        "kind=ConfigMap&namespace=other": "unreadable",
        "kind=Imaginary&namespace=default": "unknown",
    }.items():
        assert (await jane.get(f"/api/tree?version=v1&{path}&name=none"))["state"] == state


async def test_access_without_permission_to_read_roles(jane: Browser) -> None:
    access = await jane.get("/api/access")
    assert access["unreadable"] == ["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]
    assert access["subjects"] == []
    own = access["own"]
    assert own["namespace"] == "default"
    assert {"configmaps"} in [set(rule["resources"]) for rule in own["rules"]]

    async def ask(user: str, resource: str) -> Any:
        question = {"user": user, "verb": "list", "resource": resource, "namespace": "default"}
        async with jane.request("POST", "/api/access/why", json=question) as response:
            assert response.status == 200
            return await response.json()

    assert (await ask("jane", "configmaps"))["allowed"] is True
    assert (await ask("jane", "secrets"))["allowed"] is False
    other = await ask("joe", "secrets")
    assert other["allowed"] is None
    assert other["reason"].startswith("the user of the dashboard is not allowed to list ClusterRole")
    assert other["advice"] == ""
