"""A replica that was disconnected from etcd does not use its old state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient
from tests.controlplane.replicas.cluster import FaultProxy

from kubewright.api.errors import Forbidden, Invalid, NotFound
from kubewright.apiserver import HTTPRequest, User
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane

from .conftest import gadgets

GROUP = "partition.example.com"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
SECRETS = "/api/v1/namespaces/default/secrets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JANE = User("jane", ("system:authenticated",))
ROLE = {
    "metadata": {"name": "secret-reader"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
}
BINDING = {
    "metadata": {"name": "secret-reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "secret-reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
}
POLICY = {
    "metadata": {"name": "no-config-maps"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ]
        },
        "validations": [{"expression": "false", "message": "no config maps"}],
    },
}
POLICY_BINDING = {
    "metadata": {"name": "no-config-maps"},
    "spec": {"policyName": "no-config-maps", "validationActions": ["Deny"]},
}


class Replica:
    """A control plane in process, and its clients."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = PathClient(plane.server, SYSTEM)

    async def status(self, user: User, path: str) -> int:
        response = await self.plane.server.handle(HTTPRequest("GET", path, user=user))
        return response.status

    async def is_ready(self) -> bool:
        return await self.status(SYSTEM, "/readyz") == 200

    async def until_ready(self) -> None:
        async with asyncio.timeout(60):
            while not await self.is_ready():
                await asyncio.sleep(0.02)


@pytest.fixture
async def proxy(etcd: str) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(etcd) as made:
        yield made


@pytest.fixture
async def replicas(
    etcd: str, proxy: FaultProxy, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas on one etcd; the second is connected through the proxy."""
    async with AsyncExitStack() as stack:
        planes = [
            await stack.enter_async_context(
                ControlPlane(store=f"etcd://{address}/{request.node.name}?timeout=30", port=None)
            )
            for address in (etcd, proxy.address)
        ]
        first, second = (Replica(plane) for plane in planes)
        await first.admin.create(f"{RBAC}/clusterroles", ROLE)
        await first.admin.create(f"{RBAC}/clusterrolebindings", BINDING)
        crd = gadgets(GROUP, {"x-kubernetes-preserve-unknown-fields": True})
        await first.admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        async with asyncio.timeout(60):
            while (await second.status(JANE, SECRETS), await second.status(SYSTEM, GADGETS)) != (200, 200):
                await asyncio.sleep(0.02)
        yield first, second
        proxy.restore()


async def change_everything(first: Replica) -> None:
    """Revoke a permission, delete a definition, enforce a policy."""
    await first.admin.delete(f"{RBAC}/clusterrolebindings/secret-reader")
    await first.admin.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{GROUP}")
    await first.admin.create(f"{POLICIES}/validatingadmissionpolicies", POLICY)
    await first.admin.create(f"{POLICIES}/validatingadmissionpolicybindings", POLICY_BINDING)
    async with asyncio.timeout(60):
        while await first.status(SYSTEM, GADGETS) != 404:
            await asyncio.sleep(0.02)
    await first.plane.wait_until_idle()


async def check_current(second: Replica) -> None:
    assert await second.status(JANE, SECRETS) == 403
    assert await second.status(SYSTEM, GADGETS) == 404
    with pytest.raises((Forbidden, Invalid), match="no config maps"):
        await second.admin.create(CONFIG_MAPS, {"metadata": {"name": "denied"}})


@pytest.mark.parametrize("compacted", [True, False], ids=["compacted", "not-compacted"])
async def test_no_stale_decisions_after_a_partition(
    replicas: tuple[Replica, Replica], proxy: FaultProxy, compacted: bool
) -> None:
    first, second = replicas
    await second.until_ready()
    proxy.cut()
    async with asyncio.timeout(60):
        while await second.is_ready():
            await asyncio.sleep(0.02)
    assert await second.status(SYSTEM, "/livez/ping") == 200
    await change_everything(first)
    if compacted:
        storage = first.plane.storage
        await storage.compact(await storage.revision())
    assert not await second.is_ready()
    proxy.restore()
    seen: list[int] = []
    async with asyncio.timeout(60):
        while True:
            ready = await second.is_ready()
            seen.append(await second.status(JANE, SECRETS))
            if ready:
                break
            await asyncio.sleep(0.005)
    assert 200 not in seen
    await check_current(second)


async def test_watches_resume_after_a_partition(replicas: tuple[Replica, Replica], proxy: FaultProxy) -> None:
    first, second = replicas
    proxy.cut()
    await first.admin.create(CONFIG_MAPS, {"metadata": {"name": "during"}})
    storage = first.plane.storage
    await storage.compact(await storage.revision())
    proxy.restore()
    await second.until_ready()
    await change_everything(first)
    async with asyncio.timeout(60):
        while await second.status(JANE, SECRETS) != 403 or await second.status(SYSTEM, GADGETS) != 404:
            await asyncio.sleep(0.02)
    made: dict[str, Any] = {"metadata": {"name": "later"}}
    with pytest.raises((Forbidden, Invalid), match="no config maps"):
        await second.admin.create(CONFIG_MAPS, made)
    with pytest.raises(NotFound):
        await second.admin.get(f"{CONFIG_MAPS}/later")
