"""`CachedClient` sees its own writes, also while the watch is delayed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api import AlreadyExists, Conflict, GroupVersionKind, NotFound, ObjectMeta, Unstructured
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import (
    ConfigMap,
    Container,
    Namespace,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    ServiceAccount,
)
from kubewright.api.meta import LabelSelector
from kubewright.cache import Cache, CachedClient, KindOptions, ObjectChange, by_field
from kubewright.client import Client, merge_patch, metadata_of

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def config_map(name: str, namespace: str, **labels: str) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace=namespace, labels=labels or None)
    return ConfigMap(metadata=metadata, data={"name": name})


@pytest.fixture
async def cached(client: Client, namespace: str, gate: Any) -> AsyncIterator[CachedClient]:
    """A cached client whose watches the gate can hold back."""
    watching = client.with_interceptor(gate)
    async with Cache(watching, namespaces=(namespace,), own_write_timeout=0.05) as cache:
        yield CachedClient.from_client(watching, cache)


async def test_reads_see_own_writes(cached: CachedClient, namespace: str, gate: Any) -> None:
    await cached.list(ConfigMap, namespace=namespace)
    heard: list[ObjectChange] = []
    informer = await cached.cache.informer(ConfigMap)
    informer.add_handler(heard.append)
    heard.clear()
    gate.close()
    requests = len(gate.verbs)
    made = await cached.create(config_map("a", namespace))
    assert (await cached.get(ConfigMap, "a", namespace=namespace)).metadata.uid == made.metadata.uid
    made.data = {"name": "changed"}
    await cached.update(made)
    assert (await cached.get(ConfigMap, "a", namespace=namespace)).data == {"name": "changed"}
    await cached.patch(ConfigMap, "a", merge_patch({"data": {"more": "1"}}), namespace=namespace)
    assert (await cached.get(CONFIG_MAP, "a", namespace=namespace))["data"] == {
        "name": "changed",
        "more": "1",
    }
    applied = Unstructured.new(CONFIG_MAP, "a", namespace=namespace)
    applied["data"] = {"applied": "yes"}
    await cached.apply(applied, field_manager="test")
    assert (await cached.get(ConfigMap, "a", namespace=namespace)).data == {
        "name": "changed",
        "more": "1",
        "applied": "yes",
    }
    assert "a" in {each.metadata.name for each in await cached.list(ConfigMap, namespace=namespace)}
    await cached.delete(ConfigMap, "a", namespace=namespace)
    with pytest.raises(NotFound):
        await cached.get(ConfigMap, "a", namespace=namespace)
    assert "a" not in {each.metadata.name for each in await cached.list(ConfigMap, namespace=namespace)}
    again = await cached.create(config_map("a", namespace))
    assert (
        (await cached.get(ConfigMap, "a", namespace=namespace)).metadata.uid
        == again.metadata.uid
        != made.metadata.uid
    )
    assert gate.verbs[requests:] == ["create", "patch", "patch", "patch", "delete", "create"]
    before = [change.new.revision if change.new else None for change in heard]
    gate.open()
    await informer.wait_for_revision(int(again.metadata.resource_version or 0), namespace=namespace)
    assert [change.new.revision if change.new else None for change in heard] == before


async def test_dry_run_does_not_change_the_cache(cached: CachedClient, namespace: str, gate: Any) -> None:
    made = await cached.create(config_map("a", namespace))
    await cached.list(ConfigMap, namespace=namespace)
    gate.close()
    await cached.with_dry_run().create(config_map("b", namespace))
    await cached.with_dry_run().delete(made)
    changed = made.copy()
    changed.data = {"x": "y"}
    await cached.with_dry_run().update(changed)
    names = {each.metadata.name for each in await cached.list(ConfigMap, namespace=namespace)}
    assert names - {"kube-root-ca.crt"} == {"a"}
    assert (await cached.get(ConfigMap, "a", namespace=namespace)).data == {"name": "a"}


async def test_deletion_with_finalizers_in_two_steps(cached: CachedClient, namespace: str, gate: Any) -> None:
    held = config_map("held", namespace)
    held.metadata.finalizers = ["example.com/wait"]
    await cached.create(held)
    await cached.list(ConfigMap, namespace=namespace)
    gate.close()
    await cached.delete(ConfigMap, "held", namespace=namespace)
    going = await cached.get(ConfigMap, "held", namespace=namespace)
    assert going.metadata.deletion_timestamp is not None
    going.metadata.finalizers = []
    await cached.update(going)
    with pytest.raises(NotFound):
        await cached.get(ConfigMap, "held", namespace=namespace)
    gate.open()


async def test_many_deletions_are_seen(cached: CachedClient, namespace: str, gate: Any) -> None:
    for index in range(4):
        made = config_map(f"m-{index}", namespace, app="web")
        if index == 3:
            made.metadata.finalizers = ["example.com/wait"]
        await cached.create(made)
    await cached.list(ConfigMap, namespace=namespace)
    gate.close()
    await cached.delete_all(ConfigMap, namespace=namespace, labels="app=web")
    left = [each for each in await cached.list(ConfigMap, namespace=namespace) if each.metadata.labels]
    assert [each.metadata.name for each in left] == ["m-3"]
    assert left[0].metadata.deletion_timestamp is not None
    await cached.uncached.patch(
        ConfigMap, "m-3", merge_patch({"metadata": {"finalizers": None}}), namespace=namespace
    )
    with pytest.raises(NotFound):
        await cached.get(ConfigMap, "m-3", namespace=namespace)
    gate.open()


async def test_read_waits_for_subresource_write(cached: CachedClient, namespace: str, gate: Any) -> None:
    labels = {"app": "web"}
    web = Deployment(
        metadata=ObjectMeta(name="web", namespace=namespace),
        spec=DeploymentSpec(
            replicas=1,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image="i")])
            ),
        ),
    )

    async def replicas() -> int | None:
        found = await cached.get(Deployment, "web", namespace=namespace)
        assert found.spec is not None
        return found.spec.replicas

    await cached.create(web)
    await cached.list(Deployment, namespace=namespace)
    await cached.scale(Deployment, "web", namespace=namespace, replicas=4)
    assert await replicas() == 4
    gate.close()
    await cached.scale(Deployment, "web", namespace=namespace, replicas=5)
    assert await replicas() == 5
    gate.open()


async def test_metadata_reads_see_full_object_writes(cached: CachedClient, namespace: str, gate: Any) -> None:
    informer = await cached.cache.informer(metadata_of(ConfigMap))
    await cached.cache.wait_for_sync()
    gate.close()
    await cached.create(config_map("a", namespace, app="web"))
    assert (await cached.get(metadata_of(ConfigMap), "a", namespace=namespace)).metadata.labels == {
        "app": "web"
    }
    assert informer.metadata_only
    assert b'"data"' not in next(entry.raw for key, entry in informer.store.entries() if key.name == "a")
    found = await cached.get(metadata_of(ConfigMap), "a", namespace=namespace)
    found.metadata.labels = {"app": "other"}
    await cached.patch(found)
    assert (await cached.get(metadata_of(ConfigMap), "a", namespace=namespace)).metadata.labels == {
        "app": "other"
    }
    gate.open()


async def test_reads_outside_the_cache_scope_go_to_server(client: Client, namespace: str, gate: Any) -> None:
    options = {ConfigMap: KindOptions(namespaces=(namespace,), labels="app=web")}
    watching = client.with_interceptor(gate)
    async with Cache(watching, kinds=options) as cache:
        cached = CachedClient.from_client(watching, cache)
        await cached.list(ConfigMap, namespace=namespace)
        gate.close()
        await cached.create(config_map("outside", namespace))
        inside = await cached.create(config_map("inside", namespace, app="web"))
        assert [each.metadata.name for each in await cached.list(ConfigMap, namespace=namespace)] == [
            "inside"
        ]
        assert (await cached.get(ConfigMap, "outside", namespace=namespace)).data == {"name": "outside"}
        with pytest.raises(NotFound):
            await cached.get(ConfigMap, "missing", namespace=namespace)
        inside.metadata.labels = {"app": "left"}
        await cached.update(inside)
        assert await cached.list(ConfigMap, namespace=namespace) == []
        gate.open()


async def test_field_selector_makes_reads_wait_then_read_from_server(
    client: Client, namespace: str, gate: Any
) -> None:
    options = {ConfigMap: KindOptions(namespaces=(namespace,), fields="metadata.name!=hidden")}
    watching = client.with_interceptor(gate)
    async with Cache(watching, kinds=options, own_write_timeout=0.05) as cache:
        cached = CachedClient.from_client(watching, cache)
        await cached.list(ConfigMap, namespace=namespace)
        made = await cached.create(config_map("a", namespace))
        assert (await cached.get(ConfigMap, "a", namespace=namespace)).data == {"name": "a"}
        gate.close()
        made.data = {"name": "new"}
        await cached.update(made)
        assert (await cached.get(ConfigMap, "a", namespace=namespace)).data == {"name": "new"}
        listed = {each.metadata.name: each.data for each in await cached.list(ConfigMap, namespace=namespace)}
        assert listed["a"] == {"name": "new"}
        gate.open()


async def test_errors_mark_cached_objects_as_outdated(
    cached: CachedClient, client: Client, namespace: str, gate: Any
) -> None:
    known = await cached.create(config_map("a", namespace))
    await cached.list(ConfigMap, namespace=namespace)
    gate.close()
    elsewhere = await client.get(ConfigMap, "a", namespace=namespace)
    elsewhere.data = {"from": "elsewhere"}
    await client.update(elsewhere)
    await client.create(config_map("b", namespace))
    known.data = {"from": "here"}
    with pytest.raises(Conflict):
        await cached.update(known)
    assert (await cached.get(ConfigMap, "a", namespace=namespace)).data == {"from": "elsewhere"}
    with pytest.raises(AlreadyExists):
        await cached.create(config_map("b", namespace))
    assert (await cached.get(ConfigMap, "b", namespace=namespace)).data == {"name": "b"}
    outcome = await cached.create_or_update(
        config_map("b", namespace), lambda each: (each.data or {}).update(more="1")
    )
    assert outcome[1] == "updated"
    assert (await cached.get(ConfigMap, "b", namespace=namespace)).data == {"name": "b", "more": "1"}
    gate.open()


async def test_uncached_objects_are_read_from_server(
    cached: CachedClient, client: Client, namespace: str
) -> None:
    default = await cached.list(ServiceAccount, namespace="default")
    assert all(each.metadata.namespace == "default" for each in default)
    await client.create(Secret(metadata=ObjectMeta(name="s", namespace="default"), string_data={"a": "b"}))
    try:
        async with Cache(client) as everything:
            unlimited = CachedClient.from_client(client, everything)
            assert set((await unlimited.get(Secret, "s", namespace="default")).data or {}) == {"a"}
            assert everything.usage() == []
    finally:
        await client.delete(Secret, "s", namespace="default")
    with pytest.raises(ValueError, match="requires a name"):
        await cached.get(ConfigMap, "", namespace=namespace)


async def test_uncached_and_impersonated_reads_go_to_server(
    cached: CachedClient, client: Client, namespace: str, gate: Any
) -> None:
    await cached.list(ConfigMap, namespace=namespace)
    gate.close()
    await client.create(config_map("a", namespace))
    with pytest.raises(NotFound):
        await cached.get(ConfigMap, "a", namespace=namespace)
    assert (await cached.uncached.get(ConfigMap, "a", namespace=namespace)).data
    assert "a" in {each.metadata.name for each in await cached.uncached.list(ConfigMap, namespace=namespace)}
    impersonating = cached.with_impersonation("kubernetes-admin", ["system:masters"])
    assert (await impersonating.get(ConfigMap, "a", namespace=namespace)).data
    found = await cached.wait(
        ConfigMap, "a", namespace=namespace, until=lambda each: each is not None, timeout=120
    )
    assert found is not None
    gate.open()


async def test_derived_clients_keep_the_cache(cached: CachedClient, namespace: str) -> None:
    await cached.create(config_map("a", namespace))
    mine = cached.in_namespace(namespace).with_field_manager("me")
    assert isinstance(mine, CachedClient)
    assert (await mine.get(ConfigMap, "a")).data == {"name": "a"}
    cached.cache.add_index(ConfigMap, by_field("data.name"))
    assert [each.metadata.name for each in await mine.list(ConfigMap, fields={"data.name": "a"})] == ["a"]
    with pytest.raises(ValueError, match="restricted to namespace"):
        await mine.get(ConfigMap, "a", namespace="default")


async def test_graceful_deletion_of_pods_and_namespaces(
    cached: CachedClient, client: Client, namespace: str, gate: Any
) -> None:
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace=namespace),
        spec=PodSpec(containers=[Container(name="c", image="i")], node_name="node"),
    )
    pod.spec.service_account_name = "default"  # type: ignore[union-attr]
    try:
        await client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=namespace)))
    except AlreadyExists:
        pass
    await cached.create(pod)
    await cached.list(Pod, namespace=namespace)
    other = f"{namespace}-going"
    await client.create(Namespace(metadata=ObjectMeta(name=other)))
    await cached.list(Namespace)
    gate.close()
    await cached.delete(Pod, "p", namespace=namespace, grace_period=30)
    assert (await cached.get(Pod, "p", namespace=namespace)).metadata.deletion_timestamp is not None
    await cached.delete(Pod, "p", namespace=namespace, grace_period=0)
    with pytest.raises(NotFound):
        await cached.get(Pod, "p", namespace=namespace)
    await cached.delete(Namespace, other)
    assert (await cached.get(Namespace, other)).metadata.deletion_timestamp is not None
    gate.open()


async def test_concurrent_writers_and_readers(cached: CachedClient, namespace: str) -> None:
    await cached.create(config_map("count", namespace))

    async def add(number: int) -> None:
        from kubewright.client import retry_on_conflict

        async def attempt() -> None:
            current = await cached.get(ConfigMap, "count", namespace=namespace)
            current.data = {**(current.data or {}), f"n{number}": "1"}
            written = await cached.update(current)
            read = await cached.get(ConfigMap, "count", namespace=namespace)
            assert int(read.metadata.resource_version or 0) >= int(written.metadata.resource_version or 0)

        await retry_on_conflict(attempt, attempts=50)

    await asyncio.gather(*(add(number) for number in range(10)))
    assert len((await cached.get(ConfigMap, "count", namespace=namespace)).data or {}) == 11
