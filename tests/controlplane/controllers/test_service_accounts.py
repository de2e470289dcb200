"""Controllers of service accounts, token secrets and aggregated cluster roles."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.api.errors import NotFound
from kubewright.apiserver import HTTPRequest
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with ControlPlane(port=None) as made:
        await made.wait_until_idle()
        yield made


@pytest.fixture
def client(plane: ControlPlane) -> PathClient:
    return PathClient(plane.server, SYSTEM)


def role(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, **more}


async def test_every_namespace_has_a_service_account_and_the_root_ca(plane: Any, client: PathClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    await client.create("/api/v1/namespaces", namespace)
    await plane.wait_until_idle()
    await client.get("/api/v1/namespaces/ns/serviceaccounts/default")
    path = "/api/v1/namespaces/ns/configmaps/kube-root-ca.crt"
    assert (await client.get(path))["data"] == {"ca.crt": plane.ca.decode()}
    await client.merge(path, {"data": {"ca.crt": "other"}})
    await client.delete("/api/v1/namespaces/ns/serviceaccounts/default")
    await plane.wait_until_idle()
    assert (await client.get(path))["data"] == {"ca.crt": plane.ca.decode()}
    await client.get("/api/v1/namespaces/ns/serviceaccounts/default")
    await client.delete("/api/v1/namespaces/ns")
    await plane.wait_until_idle()
    with pytest.raises(NotFound):
        await client.get("/api/v1/namespaces/ns")


async def test_token_secrets_are_filled_and_deleted_with_their_account(
    plane: Any, client: PathClient
) -> None:
    core = "/api/v1/namespaces/default"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    made = await client.create(f"{core}/serviceaccounts", account)
    metadata = {"name": "t", "annotations": {"kubernetes.io/service-account.name": "robot"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/service-account-token",
    }
    await client.create(f"{core}/secrets", secret)
    await plane.wait_until_idle()
    found = await client.get(f"{core}/secrets/t")
    assert found["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == made["metadata"]["uid"]
    assert base64.b64decode(found["data"]["namespace"]) == b"default"
    assert base64.b64decode(found["data"]["ca.crt"]) == plane.ca
    assert base64.b64decode(found["data"]["token"]).count(b".") == 2
    await client.delete(f"{core}/serviceaccounts/robot")
    await plane.wait_until_idle()
    with pytest.raises(NotFound):
        await client.get(f"{core}/secrets/t")


async def test_token_of_a_secret_authenticates_its_account(plane: Any, client: PathClient) -> None:
    core = "/api/v1/namespaces/default"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    made = await client.create(f"{core}/serviceaccounts", account)
    metadata = {"name": "t", "annotations": {"kubernetes.io/service-account.name": "robot"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/service-account-token",
    }
    await client.create(f"{core}/secrets", secret)
    await plane.wait_until_idle()
    token = base64.b64decode((await client.get(f"{core}/secrets/t"))["data"]["token"]).decode()

    async def review(**spec: Any) -> dict[str, Any]:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
        status: dict[str, Any] = (
            await client.create(reviews, {**body, "metadata": {}, "spec": {"token": token, **spec}})
        )["status"]
        return status

    status = await review()
    assert status["authenticated"], status
    assert status["user"]["username"] == "system:serviceaccount:default:robot"
    assert status["user"]["uid"] == made["metadata"]["uid"]
    assert not (await review(audiences=["other"])).get("authenticated")

    async def send() -> int:
        request = HTTPRequest("GET", "/api", headers={"Authorization": f"Bearer {token}"})
        return (await plane.server.handle(request)).status

    assert await send() == 200
    await client.merge(f"{core}/secrets/t", {"data": {"token": base64.b64encode(b"other").decode()}})
    assert "Token does not match server's copy" in (await review())["error"]
    await client.delete(f"{core}/secrets/t")
    assert "Token has been invalidated" in (await review())["error"]
    assert await send() == 401


async def test_roles_are_aggregated(plane: Any, client: PathClient) -> None:
    view = await client.get(f"{RBAC}/view")
    assert any("pods" in rule.get("resources", ()) for rule in view["rules"])
    rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await client.create(RBAC, role("widgets", metadata={"labels": labels}, rules=[rule]))
    await plane.wait_until_idle()
    assert rule in (await client.get(f"{RBAC}/view"))["rules"]
    await client.delete(f"{RBAC}/widgets")
    await plane.wait_until_idle()
    assert rule not in (await client.get(f"{RBAC}/view"))["rules"]
