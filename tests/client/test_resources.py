"""Every verb accepts a `GroupVersionResource`, as the dynamic client of client-go does, and similar forms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api import CustomResource, Spec, Status, resource
from kubewright.api.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, CachedClient, CachingNotAllowed, KindOptions
from kubewright.client import Client, NoKindMatch, SyncClient, metadata_of, patches
from kubewright.client.sync.event_loop_thread import EventLoopThread
from kubewright.client.wait import exists
from kubewright.controller import ControllerBuilder, Request
from kubewright.manager import Cluster, Manager, Operator
from kubewright.manifests import crd
from kubewright.testing.server import TestServer, start_test_server

MAPS = GroupVersionResource("", "v1", "configmaps")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
BOXES = GroupVersionResource("resources.example.com", "v1", "boxes")


class BoxSpec(Spec):
    size: int = 1


@resource(group="resources.example.com", version="v1")
class Box(CustomResource[BoxSpec, Status]):
    """A box."""


@pytest.fixture
async def boxes(client: Client) -> AsyncIterator[None]:
    await client.create(crd(Box))
    await eventually(lambda: serves(client))
    yield
    await client.delete("customresourcedefinitions", "boxes.resources.example.com")


async def serves(client: Client) -> bool:
    client.mapper.reset()
    try:
        await client.list(BOXES)
    except Exception:
        return False
    return True


def box(name: str, namespace: str) -> Unstructured:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "box"}}
    manifest = {"apiVersion": "resources.example.com/v1", "kind": "Box", "metadata": metadata}
    return Unstructured({**manifest, "spec": {"size": 1}})


@pytest.mark.parametrize("form", ["GroupVersionResource", "GroupResource", "APIResource"])
async def test_all_verbs_of_the_client(client: Client, namespace: str, boxes: None, form: str) -> None:
    resource = await client.mapper.resource_for(BOXES)
    kind: Any = {"GroupResource": BOXES.group_resource, "APIResource": resource}.get(form, BOXES)
    made = await client.create(box("a", namespace))
    await client.create(box("b", namespace))
    found = await client.get(kind, "a", namespace=namespace)
    assert isinstance(found, Unstructured)
    assert (found.kind, found.raw["spec"]) == ("Box", {"size": 1})
    assert (await client.get_or_none(kind, "c", namespace=namespace)) is None
    assert {each.name for each in await client.list(kind, namespace=namespace)} == {"a", "b"}
    partial = await client.get(metadata_of(kind), "a", namespace=namespace)
    assert (partial.kind, partial.metadata.labels) == ("Box", {"app": "box"})
    patched = await client.patch(kind, "a", patches.merge_patch({"spec": {"size": 3}}), namespace=namespace)
    assert patched.raw["spec"] == {"size": 3}
    async with client.watch(kind, namespace=namespace, name="a") as events:
        async for event in events:
            assert (event.type, event.object.raw["spec"]) == ("ADDED", {"size": 3})
            break
    waited = await client.wait(kind, "a", namespace=namespace, until=exists, timeout=60)
    assert waited.metadata.uid == made.metadata.uid
    assert len((await client.table(kind, namespace=namespace))["rows"]) == 2
    await client.delete(kind, "a", namespace=namespace)
    await client.delete_all(kind, namespace=namespace, labels="app=box")
    assert not await client.list(kind, namespace=namespace)


async def test_built_in_resources_and_subresources_need_no_discovery(client: Client, namespace: str) -> None:
    assert client.mapper.find_cached(DEPLOYMENTS) is not None
    labels = {"app": "a"}
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    await client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a", "namespace": namespace},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
    )
    scale = await client.scale(DEPLOYMENTS, "a", namespace=namespace, replicas=5)
    assert scale.spec is not None
    assert scale.spec.replicas == 5
    status = await client.subresource("status", DEPLOYMENTS, "a", namespace=namespace).get()
    assert status.raw["spec"]["replicas"] == 5


async def test_a_resource_that_is_not_served(client: Client) -> None:
    with pytest.raises(
        NoKindMatch, match=r"does not serve example\.com/v1, Resource=things; install its CRD"
    ):
        await client.get(GroupVersionResource("example.com", "v1", "things"), "a")
    with pytest.raises(NoKindMatch, match=r"Resource=deployments; it serves deployments in apps/v1"):
        await client.list(GroupVersionResource("apps", "v9", "deployments"))
    with pytest.raises(NoKindMatch, match=r"does not serve things\.example\.com$"):
        await client.get(GroupResource("example.com", "things"), "a")


async def test_a_group_resource_is_of_its_group(client: Client, namespace: str) -> None:
    found = client.mapper.find_cached(GroupResource("", "events"))
    assert found is not None
    assert found.gvk == GroupVersionKind("", "v1", "Event")
    async with Cache(client) as cache:
        assert await cache.list(GroupResource("apps", "deployments"), namespace=namespace) == []


async def test_a_kind_and_a_resource_of_the_same_name_are_not_confused(client: Client) -> None:
    """As tuples they are equal: kind `apples` of resource `pears`, and resource `apples`."""
    for plural, kind in (("pears", "apples"), ("apples", "Fruit")):
        definition = crd(Box)
        definition["metadata"]["name"] = f"{plural}.fruit.example.com"
        definition["spec"]["group"] = "fruit.example.com"
        definition["spec"]["names"] = {"plural": plural, "singular": plural[:-1], "kind": kind}
        await client.create(definition)
    kind_apples = GroupVersionKind("fruit.example.com", "v1", "apples")
    resource_apples = GroupVersionResource("fruit.example.com", "v1", "apples")
    assert kind_apples == resource_apples

    async def served() -> bool:
        client.mapper.reset()
        try:
            await client.mapper.resource_for(kind_apples)
            await client.mapper.resource_for(resource_apples)
        except NoKindMatch:
            return False
        return True

    await eventually(served)
    for _ in range(2):
        assert (await client.mapper.resource_for(kind_apples)).plural == "pears"
        assert (await client.mapper.resource_for(resource_apples)).plural == "apples"
        assert (await client.mapper.resource_for(metadata_of(kind_apples))).plural == "pears"
        assert (await client.mapper.resource_for(metadata_of(resource_apples))).plural == "apples"
    for plural in ("pears", "apples"):
        await client.delete("customresourcedefinitions", f"{plural}.fruit.example.com")


async def test_caches_share_the_informer_of_the_kind(client: Client, namespace: str, boxes: None) -> None:
    await client.create(box("a", namespace))
    async with Cache(client, kinds={BOXES: KindOptions(namespaces=(namespace,))}) as cache:
        cached = CachedClient.from_client(client, cache)
        assert (await cached.get(BOXES, "a", namespace=namespace)).raw["spec"] == {"size": 1}
        assert [each.name for each in await cached.list(BOXES, namespace=namespace)] == ["a"]
        assert [each.name for each in await cached.list(Box, namespace=namespace)] == ["a"]
        assert len(cache.usage()) == 1
        assert cache.existing_informer(BOXES) is cache.existing_informer(Box)
        informer = cache.existing_informer(BOXES)
        assert informer is not None
        assert informer.namespaces == (namespace,)
        with pytest.raises(CachingNotAllowed):
            await cache.get(MAPS, "a", namespace=namespace)


def test_the_blocking_client() -> None:
    background = EventLoopThread()

    async def start() -> tuple[Any, TestServer]:
        context = start_test_server("in-process", controllers=False)
        return context, await context.__aenter__()

    context, server = background.run(start())
    client = SyncClient(server.client(), background)
    labels = {"app": "map"}
    metadata = {"name": "a", "namespace": "default", "labels": labels}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert client.get(MAPS, "a").metadata.labels == labels
    assert client.get_or_none(MAPS, "b") is None
    assert [each.name for each in client.list(MAPS, labels="app=map")] == ["a"]
    assert [each.name for each in client.iterate(MAPS, labels="app=map")] == ["a"]
    client.patch(MAPS, "a", patches.merge_patch({"data": {"x": "y"}}))
    with client.watch(MAPS, name="a") as events:
        assert next(iter(events)).object.raw["data"] == {"x": "y"}
    assert client.wait(MAPS, "a", until=exists, timeout=60).name == "a"
    assert client.table(MAPS, "a")["rows"]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    scale = client.scale(DEPLOYMENTS, "a", replicas=4)
    assert scale.spec is not None
    assert scale.spec.replicas == 4
    assert client.subresource("status", DEPLOYMENTS, "a").get().raw["spec"]["replicas"] == 4
    client.delete(MAPS, "a")
    client.delete_all(MAPS, labels="app=map")
    background.run(context.__aexit__(None, None, None))
    background.stop()


async def test_controllers_watch_a_resource(client: Client, namespace: str, boxes: None) -> None:
    seen: list[Request] = []
    manager = Manager(Cluster(client), handle_signals=False)

    async def reconcile(request: Request) -> None:
        seen.append(request)

    def owners(_: Any) -> list[Request]:
        return [Request(namespace, "mapped")]

    builder: ControllerBuilder[Request] = ControllerBuilder(manager).for_(BOXES).watches(MAPS, owners)
    controller = builder.complete(reconcile)
    assert controller.name == "boxes"
    stop = asyncio.Event()
    run = asyncio.create_task(manager.run(stop))
    await client.create(box("a", namespace))
    await client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": namespace}}
    )
    await eventually(lambda: {Request(namespace, "a"), Request(namespace, "mapped")} <= set(seen))
    informer = manager.cache.existing_informer(MAPS)
    assert informer is not None
    assert informer.metadata_only, "of ConfigMaps only metadata is cached"
    stop.set()
    await run


def test_operators_declare_the_permissions_of_watched_resources() -> None:
    operator = Operator("boxes")

    @operator.reconcile(Box)
    async def reconcile(box: Box) -> None: ...

    for watched in (DEPLOYMENTS, GroupVersionResource("other.example.com", "v2", "crates")):

        @operator.watches(watched)
        def boxes_of(_: Any) -> list[Request]:
            return []

    rules = {(rule.groups, rule.resources, rule.verbs) for rule in operator.declarations()}  # type: ignore[union-attr]
    assert (("apps",), ("deployments",), ("get", "list", "watch")) in rules
    assert (("other.example.com",), ("crates",), ("get", "list", "watch")) in rules
