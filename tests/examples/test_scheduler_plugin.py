"""The second scheduler of the scheduler example: cheap nodes first, limits, and pods of other schedulers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubewright.api.core.v1 import Node, Pod
from kubewright.client import Client, condition, merge_patch
from kubewright.manager import Cluster, Manager
from kubewright.testing.server import start_test_server
from kubewright.workloads.scheduler import Profile, add_scheduler
from scheduler_plugin import CHEAPEST, MAX_PRICE, PRICE


@asynccontextmanager
async def running() -> AsyncIterator[Client]:
    """Run a control plane, the default scheduler and the one of the example."""
    async with start_test_server("in-process") as server:
        manager = Manager(Cluster(server.client()), handle_signals=False)
        add_scheduler(manager, [Profile(), CHEAPEST], rng=random.Random(1))
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            yield server.client()
        finally:
            stop.set()
            await task


async def create_node(client: Client, name: str, price: int, *, pods: int = 10) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": str(pods)}
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {PRICE: str(price)}},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    )
    # New nodes have the taint not-ready, which the node lifecycle controller removes.
    await client.patch(Node, name, merge_patch({"spec": {"taints": None}}))


def pod(name: str, scheduler: str = "cheapest", limit: int | None = None) -> dict[str, Any]:
    annotations = {MAX_PRICE: str(limit)} if limit is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
            ],
        },
    }


async def node_of(client: Client, name: str) -> str:
    scheduled = condition("PodScheduled")
    found = await client.wait(Pod, name=name, namespace="default", until=scheduled, timeout=10)
    assert found is not None
    assert found.spec is not None
    return found.spec.node_name or ""


async def test_cheapest_node_is_filled_first() -> None:
    async with running() as client:
        await create_node(client, "dear", 50)
        await create_node(client, "cheap", 10, pods=2)
        for index in range(3):
            await client.create(pod(f"p{index}"))
        assert [await node_of(client, f"p{index}") for index in range(3)] == ["cheap", "cheap", "dear"]


async def test_pod_waits_for_an_acceptable_price() -> None:
    async with running() as client:
        await create_node(client, "dear", 50)
        await client.create(pod("thrifty", limit=20))
        unschedulable = condition("PodScheduled", "False")
        found = await client.wait(Pod, name="thrifty", namespace="default", until=unschedulable, timeout=10)
        assert found is not None
        assert found.status is not None
        (scheduled,) = found.status.conditions or ()
        assert (scheduled.message or "").startswith("0/1 nodes are available: 1 node(s) were too expensive.")
        await client.patch(Node, "dear", merge_patch({"metadata": {"labels": {PRICE: "20"}}}))
        assert await node_of(client, "thrifty") == "dear"


async def test_other_pods_are_not_affected() -> None:
    async with running() as client:
        await create_node(client, "dear", 50)
        await create_node(client, "full", 10, pods=0)
        await client.create(pod("plain", scheduler="default-scheduler", limit=1))
        assert await node_of(client, "plain") == "dear"
