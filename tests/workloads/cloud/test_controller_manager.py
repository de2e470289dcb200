"""`CloudControllerManager` and the parts of a provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import Node, Service
from kubewright.api.meta import ObjectMeta
from kubewright.client import Client
from kubewright.manager import Cluster, Manager
from kubewright.testing.server import start_test_server
from kubewright.workloads.cloud import (
    CloudControllerManager,
    CloudProvider,
    InMemoryCloud,
    InstanceMetadata,
    Zone,
    add_cloud_controllers,
    default_load_balancer_name,
)
from kubewright.workloads.cloud.service_fields import source_ranges


@asynccontextmanager
async def running(
    client: Client, provider: CloudProvider, **options: Any
) -> AsyncIterator[CloudControllerManager]:
    manager = CloudControllerManager(provider, client, handle_signals=False, **options)
    stop = asyncio.Event()
    task = asyncio.create_task(manager.run(stop))
    try:
        yield manager
    finally:
        stop.set()
        await task


async def test_controllers_run_on_the_leader() -> None:
    async with start_test_server("in-process") as server:
        client, cloud = server.client(), InMemoryCloud()
        async with running(server.client(), cloud, cluster_cidrs=["10.244.0.0/16"]) as manager:
            assert manager.controllers == [
                "cloud-node-controller",
                "cloud-node-lifecycle-controller",
                "service-lb-controller",
                "node-route-controller",
            ]
            await client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
                }
            )

            def has_address(service: Service | None) -> bool:
                status = service.status if service is not None else None
                return bool(status and status.load_balancer and status.load_balancer.ingress)

            await client.wait(Service, name="web", namespace="default", until=has_address, timeout=30)
            lease = await client.get(Lease, "cloud-controller-manager", namespace="kube-system")
            assert lease.spec is not None
            assert lease.spec.holder_identity


class _Machines:
    """Instances without locations."""

    async def exists(self, node: Node) -> bool:
        return True

    async def is_shut_down(self, node: Node) -> bool:
        return False

    async def metadata(self, node: Node) -> InstanceMetadata:
        return InstanceMetadata(provider_id=f"acme://{node.name}")


class _Locations:
    async def zone(self, node: Node) -> Zone:
        return Zone(zone="z1", region="r1")


async def test_zones_are_read_separately(uninitialized: dict[str, str]) -> None:
    async with start_test_server("in-process") as server:
        client = server.client()
        provider = CloudProvider("acme", instances=_Machines(), zones=_Locations())
        async with running(server.client(), provider, leader_election=False) as manager:
            assert "service-lb-controller" not in manager.controllers
            await client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "n"},
                    "spec": {"taints": [uninitialized]},
                }
            )

            def has_zone(node: Node | None) -> bool:
                return node is not None and "topology.kubernetes.io/zone" in (node.metadata.labels or {})

            node = await client.wait(Node, name="n", until=has_zone, timeout=30)
            assert node is not None
            assert (node.metadata.labels or {})["topology.kubernetes.io/region"] == "r1"


async def test_disabled_and_unknown_controllers() -> None:
    async with start_test_server("in-process") as server:
        manager = Manager(Cluster(server.client()), handle_signals=False)
        with pytest.raises(ValueError, match="unknown controllers route-controller; expected some of"):
            add_cloud_controllers(manager, InMemoryCloud(), disable=["route-controller"])
        names = ["cloud-node-controller", "cloud-node-lifecycle-controller"]
        assert add_cloud_controllers(manager, InMemoryCloud(), disable=names) == ["service-lb-controller"]


def test_fields_of_a_service() -> None:
    annotations = {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, 192.0.2.0/24"}
    uid = "0c9a1f0e-0000-4000-8000-123456789abc"
    service = Service(metadata=ObjectMeta(name="web", uid=uid, annotations=annotations))
    assert source_ranges(service) == ["10.0.0.0/8", "192.0.2.0/24"]
    assert default_load_balancer_name(service) == "a0c9a1f0e00004000800012345678" + "9ab"
