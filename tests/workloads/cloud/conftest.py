"""Fixtures: the cloud controllers and an in-memory cloud on an in-process control plane, in fake time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api.core.v1 import Node, Service
from kubewright.client import Client, patches
from kubewright.controlplane.workload_connection import EmbeddedConnection
from kubewright.testing.server import start_test_server
from kubewright.testing.time import FakeTimeLoop
from kubewright.workloads import COMPONENTS, Workloads
from kubewright.workloads.cloud import InMemoryCloud, LoadBalancer, default_load_balancer_name
from kubewright.workloads.controllers import CLOUD

UNINITIALIZED = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    return {"fake-time": FakeTimeLoop}


class Cluster:
    """A control plane with cloud controllers, and the cloud."""

    def __init__(self, client: Client, workloads: Workloads, cloud: InMemoryCloud) -> None:
        self.client = client
        self.workloads = workloads
        self.cloud = cloud

    async def events(self, name: str) -> list[str]:
        """Return the reasons of the events about an object, in order."""
        return [reason for reason, _ in await self.messages(name)]

    async def messages(self, name: str) -> list[tuple[str, str]]:
        """Return reasons and messages of the events about an object."""
        await asyncio.sleep(0.1)
        found = [each.raw for each in await self.client.list("events", namespace="default")]
        found.sort(key=lambda each: each["metadata"]["name"])
        return [(each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name]

    async def create_node(
        self, name: str, *, taints: list[Any] | None = None, ready: str = "True", **options: Any
    ) -> Node:
        """Create a node with a condition Ready."""
        await self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, **options.get("metadata", {})},
                "spec": {"taints": taints or [], **options.get("spec", {})},
            }
        )
        status = {"addresses": [{"type": "Hostname", "address": name}], **options.get("status", {})}
        await self.set_node_status(name, {**status, "conditions": [{"type": "Ready", "status": ready}]})
        return await self.client.get(Node, name)

    async def set_node_status(self, name: str, status: dict[str, Any]) -> None:
        """Merge into the status of a node."""
        patch = patches.strategic_merge_patch({"status": status})
        await self.client.patch(Node, name, patch, subresource="status")

    async def create_service(self, name: str, **spec: Any) -> Service:
        """Create a service of the type LoadBalancer."""
        body = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}, **spec}
        await self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": "default"},
                "spec": body,
            }
        )
        return await self.service(name)

    async def service(self, name: str) -> Service:
        """Return a service."""
        return await self.client.get(Service, name, namespace="default")

    async def patch_service(self, name: str, change: dict[str, Any]) -> None:
        """Merge into a service."""
        await self.client.patch(Service, name, patches.merge_patch(change), namespace="default")

    async def address(self, name: str) -> str:
        """Wait for the address of a service, and return it."""

        async def check() -> str:
            return ",".join(addresses(await self.service(name)))

        found: str = await eventually(check, timeout=600)
        return found

    async def balancer(self, name: str) -> LoadBalancer | None:
        """Return the load balancer of a service."""
        return self.cloud.load_balancers.by_name.get(default_load_balancer_name(await self.service(name)))


def addresses(service: Service) -> list[str]:
    """Return the addresses in the status of a service."""
    status = service.status.load_balancer if service.status is not None else None
    return [one.ip or "" for one in (status.ingress if status is not None else None) or ()]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A control plane with the cloud controllers only."""
    cloud = InMemoryCloud()
    components = [component for component in COMPONENTS if component.name in CLOUD]
    async with start_test_server("in-process") as server:
        connection = EmbeddedConnection(server.plane)
        workloads = Workloads(connection, nodes=0, components=components, cloud=lambda: cloud)
        async with workloads:
            yield Cluster(server.client(), workloads, cloud)


@pytest.fixture
def uninitialized() -> dict[str, str]:
    """The taint of nodes that a cloud has to initialize."""
    return UNINITIALIZED
