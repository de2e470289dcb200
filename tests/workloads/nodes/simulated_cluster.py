"""A control plane with simulated nodes, for the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kubewright.api.unstructured import Unstructured
from kubewright.client import Client
from kubewright.manager import Manager
from kubewright.manager.cluster import Cluster
from kubewright.testing.server import TestServer, start_test_server
from kubewright.workloads.nodes import SimulatedNodes


class SimulatedCluster:
    """A control plane with simulated nodes and a client."""

    def __init__(self, server: TestServer, client: Client, manager: Manager, nodes: SimulatedNodes) -> None:
        self.server, self.client, self.manager, self.nodes = server, client, manager, nodes

    async def create_pod(self, name: str, **spec: Any) -> Unstructured:
        """Create a pod on node-0, with an annotation for each item of `simulate`."""
        simulate = spec.pop("simulate", {})
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": name}}
        metadata.update(spec.pop("metadata", {}))
        if simulate:
            metadata["annotations"] = {f"sim.kubewright.dev/{key}": value for key, value in simulate.items()}
        spec.setdefault("containers", [{"name": "app", "image": "nginx:1"}])
        spec.setdefault("nodeName", "node-0")
        return await self.client.create(
            Unstructured({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        )

    async def status(self, name: str) -> dict[str, Any]:
        """Return the status of a pod."""
        return dict((await self.client.get("pods", name)).raw["status"])

    async def wait_for(
        self, name: str, condition: Callable[[dict[str, Any]], object], timeout: float = 600.0
    ) -> dict[str, Any]:
        """Wait until the status of a pod fulfils a condition."""
        async with asyncio.timeout(timeout):
            delay = 0.02
            while not condition(status := await self.status(name)):
                await asyncio.sleep(delay)
                delay = min(0.5, delay * 1.1)
        return status

    async def wait_ready(self, name: str, timeout: float = 120.0) -> dict[str, Any]:
        """Wait until a pod is ready."""
        return await self.wait_for(name, lambda status: condition(status, "Ready")[0] == "True", timeout)

    async def reasons(self, name: str) -> list[str]:
        """Return the reasons of the events of a pod, in the order of their creation."""
        await asyncio.sleep(0.1)
        events = [each.raw for each in await self.client.list("events", namespace="default")]
        events.sort(key=lambda event: event["metadata"]["name"].rpartition(".")[2])
        return [event["reason"] for event in events if event["involvedObject"]["name"] == name]

    async def wait_for_reasons(self, name: str, *reasons: str, timeout: float = 120.0) -> None:
        """Wait until there are events of a pod with these reasons."""
        async with asyncio.timeout(timeout):
            while not set(reasons).issubset(await self.reasons(name)):
                pass


def condition(status: dict[str, Any], kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    for one in status.get("conditions") or ():
        if one["type"] == kind:
            return one["status"], one.get("reason") or "", one.get("message") or ""
    return "", "", ""


@asynccontextmanager
async def start_cluster(
    kind: Any = "in-process", count: Any = 2, *components: Callable[[Manager], Any], **options: Any
) -> AsyncIterator[SimulatedCluster]:
    """Start a control plane, a manager and simulated nodes."""
    async with start_test_server(kind) as server:
        client = server.client()
        manager = Manager(Cluster(client), handle_signals=False)
        nodes = SimulatedNodes(manager, count, **options)
        manager.add(nodes)
        for component in components:
            component(manager)
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            waiting = asyncio.create_task(nodes.wait_until_registered())
            await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
            yield SimulatedCluster(server, client, manager, nodes)
        finally:
            stop.set()
            await task
