"""Several control planes on one etcd form one cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import APIError, Conflict, NotFound
from kubewright.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.client import Client, NoKindMatch, condition
from kubewright.controlplane import ControlPlane

from .conftest import gadgets

SIZED = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
CRD = gadgets("shared.example.com", {"properties": SIZED})


@pytest.fixture
async def pair(
    etcd: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Client, Client, ControlPlane]]:
    """Clients of two servers that were started simultaneously, and the second server."""
    store = f"etcd://{etcd}/{request.node.name}?timeout=60"
    planes = [ControlPlane(store=store, port=0, kubeconfig=tmp_path / f"{number}") for number in (1, 2)]
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(plane) for plane in planes))
        one, two = [
            await stack.enter_async_context(Client.connect(plane.kubeconfig, metrics=False))
            for plane in planes
        ]
        yield one, two, planes[1]


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


async def test_writes_through_one_are_read_and_watched_through_the_other(pair) -> None:
    one, two, _ = pair
    seen: list[tuple[str, str]] = []
    watch = two.watch(ConfigMap, namespace="default")

    async def follow() -> None:
        async for event in watch:
            if event.object.metadata.name != "kube-root-ca.crt":
                seen.append((event.type, event.object.metadata.resource_version))
                if event.type == "DELETED":
                    return

    made = await one.create(config_map("shared", a="1"))
    following = asyncio.create_task(follow())
    async with asyncio.timeout(60):
        while not seen:
            await asyncio.sleep(0.01)
    assert await two.get(ConfigMap, "shared", namespace="default") == made
    made.data = {"a": "2"}
    changed = await one.update(made)
    stale = await two.get(ConfigMap, "shared", namespace="default")
    assert stale == changed
    stale.data = {"a": "3"}
    latest = await two.update(stale)
    changed.data = {"a": "4"}
    with pytest.raises(Conflict):
        await one.update(changed)
    await one.delete(latest)
    with pytest.raises(NotFound):
        await two.get(ConfigMap, "shared", namespace="default")
    async with asyncio.timeout(60):
        await following
    await watch.aclose()
    versions = [int(version) for _, version in seen]
    assert versions == sorted(set(versions))
    assert [type_ for type_, _ in seen][-1] == "DELETED"
    assert latest.metadata.resource_version in [version for _, version in seen]


async def test_concurrent_increments_through_both_servers(pair) -> None:
    one, two, _ = pair
    await one.create(config_map("counter", n="0"))

    async def count(client: Client) -> None:
        for _ in range(20):
            while True:
                current = await client.get(ConfigMap, "counter", namespace="default")
                current.data = {"n": str(int((current.data or {})["n"]) + 1)}
                try:
                    await client.update(current)
                    break
                except Conflict:
                    continue

    async with asyncio.timeout(60):
        await asyncio.gather(count(one), count(two))
    assert (await one.get(ConfigMap, "counter", namespace="default")).data == {"n": "40"}


async def test_kinds_defined_through_one_are_served_by_the_other(pair) -> None:
    one, two, _ = pair
    crd = await one.create(Unstructured(CRD))
    await one.wait(crd, until=condition("Established"), timeout=60)
    gadget = {
        "apiVersion": "shared.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"size": 3, "unknown": True},
    }
    async with asyncio.timeout(60):
        while True:
            try:
                made = await two.create(Unstructured(gadget))
                break
            except (NoKindMatch, NotFound):
                await asyncio.sleep(0.02)
    assert made["spec"] == {"size": 3}
    assert await one.get(made.gvk, "g", namespace="default") == made
    await one.delete(crd)
    async with asyncio.timeout(60):
        while True:
            try:
                await two.get(made.gvk, "g", namespace="default")
            except (NoKindMatch, NotFound):
                break
            await asyncio.sleep(0.02)


async def test_permissions_granted_through_one_apply_at_the_other(pair) -> None:
    one, two, _ = pair
    role = ClusterRole(
        metadata=ObjectMeta(name="reader"),
        rules=[PolicyRule(api_groups=[""], resources=["secrets"], verbs=["list"])],
    )
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="reader"),
        role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="reader"),
        subjects=[Subject(api_group="rbac.authorization.k8s.io", kind="User", name="jane")],
    )
    await one.create(role)
    await one.create(binding)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "secrets"}},
    }
    jane = two.with_impersonation("jane")
    async with asyncio.timeout(60):
        while not (await jane.create(Unstructured(review)))["status"]["allowed"]:
            await asyncio.sleep(0.02)


async def test_one_server_continues_when_the_other_stops(pair) -> None:
    one, _, other = pair
    await one.create(config_map("before"))
    await other.stop()
    await one.create(config_map("after"))
    names = {each.metadata.name async for each in one.list(ConfigMap, namespace="default")}
    assert {"before", "after"} <= names


async def test_a_quota_holds_over_several_servers(pair) -> None:
    """Creates, failing creates and deletes through both servers never exceed the quota."""
    one, two, _ = pair
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "ten", "namespace": "default"},
        "spec": {"hard": {"count/secrets": "10"}},
    }
    await one.create(Unstructured(quota))

    def is_counted(quota: Unstructured) -> bool:
        return "count/secrets" in ((quota.get("status") or {}).get("used") or {})

    async with asyncio.timeout(60):
        for client in (one, two):
            while not is_counted(await client.get("resourcequotas", "ten", namespace="default")):
                await asyncio.sleep(0.01)

    async def create(client: Client, name: str) -> bool:
        metadata = {"name": name, "namespace": "default"}
        try:
            await client.create(Unstructured({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
        except APIError:
            return False  # the quota is used up
        return True

    async def churn(client: Client, number: int) -> None:
        for turn in range(8):
            name = f"s-{number}-{turn}"
            if await create(client, name) and turn % 2:
                await client.delete("secrets", name, namespace="default")
            stored = await client.list("secrets", namespace="default")
            assert len(stored) <= 10

    await asyncio.gather(*(churn(client, number) for number, client in enumerate((one, two) * 4)))


async def test_a_definition_established_on_one_server_is_served_by_the_other(pair) -> None:
    one, _, plane = pair
    for number in range(5):
        group = f"n{number}.example.com"
        definition = gadgets(group, {"properties": SIZED})
        await one.create(Unstructured(definition))
        # The response says Established: the next request can be sent to another server.
        path = f"/apis/{group}/v1/namespaces/default/gadgets"
        body = {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "g"}}
        created = await PathClient(plane.server, SYSTEM).create(path, body)
        assert created["metadata"]["name"] == "g"
