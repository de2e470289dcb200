"""The memories of objects: created when they are read, limited in number."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright import Context, CustomResource, ObjectMeta, Operator, Request, Spec, SyncContext, resource
from kubewright.manager.contexts.object_memories import ObjectMemories
from kubewright.testing import fake_time, run_operator, start_test_server


class ShopSpec(Spec):
    size: int = 1


@resource(group="memories.example.com", version="v1")
class Shop(CustomResource[ShopSpec, None]):
    """A shop."""


def test_the_least_recently_used_memories_are_dropped() -> None:
    memories = ObjectMemories(limit=2)
    one, two, three = (Request("ns", name) for name in ("one", "two", "three"))
    memories.get(Shop, one, "1")["n"] = 1
    memories.get(Shop, two, "2")["n"] = 2
    assert memories.get(Shop, one, "1") == {"n": 1}
    memories.get(Shop, three, "3")
    assert len(memories) == 2
    assert memories.get(Shop, one, "1") == {"n": 1}
    assert memories.get(Shop, two, "2") == {}
    assert memories.get(Shop, one, "another uid") == {}
    memories.discard(Shop, one)
    memories.discard(Shop, one)
    assert len(memories) == 1


@pytest.mark.parametrize("plain", [False, True])
def test_only_objects_whose_memory_is_read_have_one(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[ObjectMemories] = []
    original = ObjectMemories.__init__

    def record(self: ObjectMemories, *args: Any) -> None:
        created.append(self)
        original(self, *args)

    monkeypatch.setattr(ObjectMemories, "__init__", record)
    operator = Operator("shops")
    counts: list[int] = []

    def count(ctx: Context[Shop] | SyncContext[Shop]) -> None:
        if ctx.object.name == "b":
            ctx.memory["n"] = ctx.memory.get("n", 0) + 1
            counts.append(ctx.memory["n"])

    if plain:

        @operator.reconcile(Shop)
        def reconcile_plain(shop: Shop, ctx: SyncContext[Shop]) -> None:
            count(ctx)

    else:

        @operator.reconcile(Shop)
        async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
            count(ctx)

    async def scenario() -> None:
        async with start_test_server("in-process") as server:
            client = server.client()
            async with run_operator(operator, client):
                for name in ("a", "b", "c"):
                    await client.create(
                        Shop(metadata=ObjectMeta(name=name, namespace="default"), spec=ShopSpec())
                    )
                await asyncio.sleep(5)
                made = await client.get(Shop, "b", namespace="default")
                made.spec.size = 2
                await client.update(made)
                await asyncio.sleep(5)
                assert counts == [1, 2]
                assert sum(map(len, created)) == 1
                await client.delete(Shop, "b", namespace="default")
                await asyncio.sleep(5)
                assert sum(map(len, created)) == 0

    fake_time(scenario())
