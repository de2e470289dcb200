"""The cloud provider example against the HTTP API of its imaginary cloud."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acme_cloud import AcmeCloud

import cloud_provider
from cloud_provider import PROVISIONING_DELAY, AcmeAPI, acme
from kubewright.api.core.v1 import Node, Service
from kubewright.client import Client, strategic_merge_patch
from kubewright.client.wait import is_deleted
from kubewright.workloads.cloud import CloudControllerManager

DEPLOY = Path(cloud_provider.__file__).with_name("deploy.yaml")
ACCOUNT = "system:serviceaccount:kube-system:cloud-controller-manager"
ACCOUNT_GROUPS = ("system:serviceaccounts", "system:authenticated")
TAINT = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}


@asynccontextmanager
async def running(client: Client) -> AsyncIterator[AcmeCloud]:
    """Run the cloud and the cloud controller manager, with the permissions of `deploy.yaml` only."""
    cloud = AcmeCloud()
    server = cloud.start()
    try:
        await client.apply_yaml(DEPLOY)
        provider = acme(f"http://127.0.0.1:{server.server_port}", cloud.token)
        manager = CloudControllerManager(
            provider,
            client.with_impersonation(ACCOUNT, ACCOUNT_GROUPS),
            cluster_cidrs=["10.244.0.0/16"],
            handle_signals=False,
        )
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            yield cloud
        finally:
            stop.set()
            await task
    finally:
        server.shutdown()
        server.server_close()


async def create_node(client: Client, name: str, number: int) -> None:
    cidr = f"10.244.{number}.0/24"
    spec = {"taints": [TAINT], "podCIDR": cidr, "podCIDRs": [cidr]}
    await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec})
    await set_ready(client, name, "True")

    def initialized(node: Node | None) -> bool:
        return bool(node and node.spec and node.spec.provider_id and node.status and node.status.addresses)

    await client.wait(Node, name=name, until=initialized, timeout=60)


async def set_ready(client: Client, name: str, status: str) -> None:
    change = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
    await client.patch(Node, name, strategic_merge_patch(change), subresource="status")


def has_address(service: Service | None) -> bool:
    status = service.status if service is not None else None
    return bool(status and status.load_balancer and status.load_balancer.ingress)


async def test_nodes_and_load_balancers(world: Any) -> None:
    client: Client = world.client
    async with running(client) as cloud:
        cloud.add_server("node-0")
        cloud.add_server("node-1", zone="north-2")
        await create_node(client, "node-0", 0)
        await create_node(client, "node-1", 1)
        node = await client.get(Node, "node-1")
        assert node.spec is not None
        assert node.status is not None
        assert node.spec.provider_id == "acme://srv-2"
        labels = node.metadata.labels or {}
        assert labels["topology.kubernetes.io/zone"] == "north-2"
        assert labels["node.kubernetes.io/instance-type"] == "c2.large"
        assert [one.address for one in node.status.addresses or ()][:2] == ["10.1.0.2", "198.51.100.2"]

        loop = asyncio.get_running_loop()
        began = loop.time()
        body: dict[str, Any] = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        metadata = {"name": "web", "namespace": world.namespace}
        await client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": body})
        service = await client.wait(
            Service, name="web", namespace=world.namespace, until=has_address, timeout=60
        )
        assert loop.time() - began >= PROVISIONING_DELAY
        assert service is not None
        assert service.spec is not None
        (balancer,) = cloud.resources["load-balancers"].values()
        assert balancer["servers"] == ["srv-1", "srv-2"]
        assert balancer["ports"] == [{"port": 80, "target": (service.spec.ports or [])[0].node_port}]
        await asyncio.sleep(20)
        routes = {one["destination"]: one["node"] for one in cloud.resources["routes"].values()}
        assert routes == {"10.244.0.0/24": "node-0", "10.244.1.0/24": "node-1"}

        # The server of a failed node does not exist any more.
        del cloud.resources["servers"]["srv-2"]
        await set_ready(client, "node-1", "Unknown")
        await client.wait(Node, name="node-1", until=is_deleted, timeout=60)
        await asyncio.sleep(20)
        (balancer,) = cloud.resources["load-balancers"].values()
        assert balancer["servers"] == ["srv-1"]
        assert len(cloud.resources["routes"]) == 1

        await client.delete(Service, "web", namespace=world.namespace)
        await client.wait(Service, name="web", namespace=world.namespace, until=is_deleted, timeout=60)
        assert cloud.resources["load-balancers"] == {}


async def test_errors_of_the_api() -> None:
    cloud = AcmeCloud()
    server = cloud.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert await AcmeAPI(url, cloud.token).get("servers", "missing") is None
        with pytest.raises(ConnectionError, match="401 wrong token"):
            await AcmeAPI(url, "wrong").get("servers")
    finally:
        server.shutdown()
        server.server_close()
