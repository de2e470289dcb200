"""Replicas that share the objects of an operator: each is reconciled, by one replica at a time."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.client.errors import ConnectionFailed
from kubewright.controller import Request
from kubewright.manager import LeadershipLost, Operator
from kubewright.manager.operators.operator_runtime import prepare
from kubewright.testing.server import TestServer

OBJECTS = int(os.environ.get("KUBEWRIGHT_SHARDED_OBJECTS", "120"))


class Trace:
    """When which replica began and ended the reconcile of an object."""

    def __init__(self) -> None:
        self.running: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self.overlaps: list[tuple[str, str, str]] = []
        self.count = 0

    async def reconcile(self, replica: str, name: str, seconds: float) -> None:
        if name in self.running:
            self.overlaps.append((name, self.running[name], replica))
        self.running[name] = replica
        self.count += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.running.pop(name, None)
        self.last[name] = replica


class Replica:
    """One process of the operator."""

    def __init__(self, server: TestServer, trace: Trace, name: str, seconds: float = 24.0 / OBJECTS) -> None:
        self.name = name
        self.cut = False
        self.stop = asyncio.Event()
        self.operator = Operator("boxes")
        self.operator.settings.shards = True
        self.operator.settings.leader_election_namespace = "default"
        self.operator.settings.failure_events = False
        self.operator.settings.allow = (ConfigMap,)

        @self.operator.reconcile(ConfigMap, workers=4)
        async def reconcile(request: Request) -> None:
            if request.name.startswith("box-"):
                await trace.reconcile(name, request.name, seconds)

        self.client = server.client().with_interceptor(self.intercept)
        self.task: asyncio.Task[None] | None = None

    async def intercept(self, request: Any, send: Any) -> Any:
        if self.cut:
            raise ConnectionFailed("the network is cut")
        return await send(request)

    async def start(self) -> Replica:
        manager = (await prepare(self.operator, self.client)).manager
        manager.handle_signals = False
        assert manager.elector is not None
        manager.elector.clock = asyncio.get_running_loop().time
        self.task = asyncio.create_task(manager.run(self.stop))
        return self

    async def end(self) -> None:
        self.stop.set()
        assert self.task is not None
        await self.task


async def boxes(client: Client) -> None:
    for index in range(OBJECTS):
        await client.create(ConfigMap(metadata=ObjectMeta(name=f"box-{index}", namespace="default")))


async def touch(client: Client) -> None:
    """Change every object."""
    for index in range(OBJECTS):
        box = await client.get(ConfigMap, f"box-{index}", namespace="default")
        box.data = {"turn": str(int((box.data or {}).get("turn", "0")) + 1)}
        await client.update(box)


def owners(trace: Trace) -> Counter[str]:
    return Counter(trace.last.values())


async def test_replicas_join_leave_and_crash(server: TestServer) -> None:
    client, trace = server.client(), Trace()
    await boxes(client)
    first = await Replica(server, trace, "first").start()
    await asyncio.sleep(30)
    assert owners(trace) == {"first": OBJECTS}

    second = await Replica(server, trace, "second").start()
    third = await Replica(server, trace, "third").start()
    await asyncio.sleep(30)
    assert len(trace.last) == OBJECTS
    counts = owners(trace)
    assert set(counts) == {"first", "second", "third"}, "who gains a partition reconciles its objects"
    assert max(counts.values()) < OBJECTS / 3 * 1.5

    trace.last.clear()
    await touch(client)
    await asyncio.sleep(30)
    assert len(trace.last) == OBJECTS, "every change was seen by one of them"

    await second.end()
    trace.last.clear()
    await touch(client)
    await asyncio.sleep(30)
    assert set(owners(trace)) == {"first", "third"}
    assert len(trace.last) == OBJECTS

    third.cut = True
    trace.last.clear()
    await touch(client)
    await asyncio.sleep(60)
    assert owners(trace) == {"first": OBJECTS}
    with pytest.raises(LeadershipLost):
        await third.task  # type: ignore[misc]
    await first.end()
    assert trace.overlaps == []
    names = [lease.metadata.name async for lease in client.list(Lease, namespace="default")]
    assert names == ["boxes-shards"], "members remove their Leases"


@pytest.mark.skipif(OBJECTS > 1000, reason="takes hours of simulated time")
async def test_a_partition_is_handed_over_after_its_reconciles(server: TestServer) -> None:
    """The second replica does not begin while the first still works on an object."""
    client, trace = server.client(), Trace()
    await boxes(client)
    first = await Replica(server, trace, "first", seconds=20.0).start()
    await asyncio.sleep(10)
    assert len(trace.running) == 4
    second = await Replica(server, trace, "second", seconds=0.1).start()
    await asyncio.sleep(600)
    assert trace.overlaps == []
    assert trace.last.keys() == {f"box-{index}" for index in range(OBJECTS)}
    await second.end()
    await first.end()


async def test_a_member_that_was_removed_stops(server: TestServer) -> None:
    client, trace = server.client(), Trace()
    replica = await Replica(server, trace, "first").start()
    await asyncio.sleep(5)
    async for lease in client.list(Lease, namespace="default"):
        if lease.metadata.name != "boxes-shards":
            await client.delete(lease)
    assert replica.task is not None
    with pytest.raises(LeadershipLost, match="removed"):
        await asyncio.wait_for(replica.task, 30)
