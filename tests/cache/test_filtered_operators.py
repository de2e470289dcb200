"""Operators whose caches hold a part of the objects, or a part of each object."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright import Context, CustomResource, ObjectMeta, Operator, Request, Spec, resource
from kubewright.api.core.v1 import Namespace, Node, NodeSpec, Pod
from kubewright.api.errors import NotFound
from kubewright.api.meta import PartialObjectMetadata
from kubewright.api.objects import Struct
from kubewright.cache import KindOptions
from kubewright.client import Client, merge_patch
from kubewright.testing import fake_time, run_operator, start_test_server


class ShopSpec(Spec):
    size: int = 1
    notes: str = ""


@resource(group="filtered.example.com", version="v1")
class Shop(CustomResource[ShopSpec, None]):
    """A shop."""


class SizeSpec(Struct):
    size: int = 1


class Size(Struct):
    spec: SizeSpec | None = None


def shop(name: str, namespace: str = "default", **labels: str) -> Shop:
    meta = ObjectMeta(name=name, namespace=namespace, labels=labels)
    return Shop(metadata=meta, spec=ShopSpec(size=3, notes="x" * 1000))


CASES = {
    "labels": KindOptions(labels="shard=0"),
    "fields": KindOptions(fields={"metadata.name": "a"}),
    "namespaces": KindOptions(namespaces=("default",)),
    "labels, spilled": KindOptions(labels="shard=0", spill=True),
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_only_selected_objects_are_reconciled(options: KindOptions) -> None:
    operator = Operator("shops")
    operator.settings.kinds[Shop] = options
    reconciled: list[tuple[str, int]] = []
    others: list[int] = []

    @operator.reconcile(Shop)
    async def reconcile(found: Shop, ctx: Context[Shop]) -> None:
        reconciled.append((found.name, found.spec.size))
        # An object that is not cached is read from the server, not reported as missing.
        others.append((await ctx.client.get(Shop, "b", namespace="other")).spec.size)
        with pytest.raises(NotFound):
            await ctx.client.get(Shop, "none", namespace="other")

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            await client.create(Namespace(metadata=ObjectMeta(name="other")))
            async with run_operator(operator, client) as manager:
                await client.create(shop("b", "other", shard="1"))
                made = await client.create(shop("a", shard="0"))
                await asyncio.sleep(5)
                assert reconciled == [("a", 3)]
                made.spec.size = 4
                await client.update(made)
                await asyncio.sleep(5)
                assert (reconciled[-1], others[-1]) == (("a", 4), 3)
                [usage] = [each for each in manager.cache.usage() if each.gvk == Shop.gvk]
                assert usage.objects == 1
                await client.delete(Shop, "a", namespace="default")
                await asyncio.sleep(5)
                [usage] = [each for each in manager.cache.usage() if each.gvk == Shop.gvk]
                assert usage.objects == 0

    fake_time(scenario())


def test_an_object_that_no_longer_matches_is_removed() -> None:
    operator = Operator("shops")
    operator.settings.kinds[Shop] = KindOptions(labels="shard=0")
    reconciled: list[str] = []

    @operator.reconcile(Shop)
    async def reconcile(found: Shop, ctx: Context[Shop]) -> None:
        reconciled.append(found.name)

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(operator, client) as manager:
                await client.create(shop("a", shard="0"))
                await asyncio.sleep(5)
                informer = await manager.cache.informer(Shop)
                assert len(informer.store) == 1
                await _set_label(client, "a", "1")
                await asyncio.sleep(5)
                assert len(informer.store) == 0
                await _set_label(client, "a", "0")
                await asyncio.sleep(5)
                assert len(informer.store) == 1

    fake_time(scenario())


async def _set_label(client: Client, name: str, shard: str) -> None:
    patch = merge_patch({"metadata": {"labels": {"shard": shard}}})
    await client.patch(Shop, name, patch, namespace="default")


def test_a_typed_reconciler_of_a_projected_kind() -> None:
    operator = Operator("shops")
    operator.settings.kinds[Shop] = KindOptions(projection=Size)
    reconciled: list[tuple[int, str]] = []

    @operator.reconcile(Shop)
    async def reconcile(found: Shop, ctx: Context[Shop]) -> None:
        reconciled.append((found.spec.size, found.spec.notes))
        if found.spec.size == 3:
            found.spec.size = 4
            await ctx.client.update(found)

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(operator, client) as manager:
                await client.create(shop("a"))
                await asyncio.sleep(5)
                assert reconciled == [(3, ""), (4, "")]
                stored = await client.get(Shop, "a", namespace="default")
                assert (stored.spec.size, stored.spec.notes) == (4, "x" * 1000)
                [usage] = [each for each in manager.cache.usage() if each.gvk == Shop.gvk]
                assert usage.bytes < 700

    fake_time(scenario())


def test_a_watched_kind_of_which_only_metadata_is_cached() -> None:
    operator = Operator("shops")
    received: list[Any] = []
    reconciled: list[str] = []

    @operator.reconcile(Shop)
    async def reconcile(found: Shop, ctx: Context[Shop]) -> None:
        reconciled.append(found.name)

    @operator.watches(Node, metadata_only=True)
    def shops_of(node: PartialObjectMetadata) -> list[Request]:
        received.append(node)
        return [Request("default", (node.metadata.labels or {}).get("shop", "none"))]

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(operator, client) as manager:
                await client.create(shop("a"))
                await asyncio.sleep(5)
                before = len(reconciled)
                node = Node(metadata=ObjectMeta(name="n", labels={"shop": "a"}), spec=NodeSpec(pod_cidr=""))
                await client.create(node)
                await asyncio.sleep(5)
                assert len(reconciled) > before
                assert isinstance(received[-1], PartialObjectMetadata)
                informer = manager.cache.existing_informer(Node)
                assert informer is not None
                assert informer.metadata_only
                assert manager.cache.existing_informer(Pod) is None

    fake_time(scenario())
