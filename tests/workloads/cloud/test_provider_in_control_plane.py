"""The in-memory cloud of a control plane with simulated nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.core.v1 import Node, Service
from kubewright.client import Client
from kubewright.testing.server import start_test_server
from kubewright.workloads.cloud import InMemoryCloud


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], **spec},
    }


async def address(client: Client, name: str) -> list[str]:
    def has_address(found: Service | None) -> bool:
        return bool(
            found and found.status and found.status.load_balancer and found.status.load_balancer.ingress
        )

    found = await client.wait(Service, name=name, namespace="default", until=has_address, timeout=30)
    assert found is not None
    assert found.status is not None
    assert found.status.load_balancer is not None
    return [one.ip or "" for one in found.status.load_balancer.ingress or ()]


async def test_load_balancer_of_simulated_nodes() -> None:
    options: Any = {"nodes": 2, "load_balancer_range": "198.51.100.8/29, 2001:db8::/64"}
    async with start_test_server("in-process", **options) as server:
        client = server.client()
        workloads = server.plane.workloads
        assert workloads is not None
        assert not {name for name in workloads.started if "cloud" in name or "-lb-" in name}
        await client.create(service("web"))
        assert await address(client, "web") == ["198.51.100.9"]
        cloud = workloads.cloud
        assert isinstance(cloud, InMemoryCloud)
        (balancer,) = cloud.load_balancers.by_name.values()
        assert balancer.nodes == ["node-0", "node-1"]


async def test_disabled_controller() -> None:
    options: Any = {"nodes": 1, "disable_controllers": ["service-lb-controller"]}
    async with start_test_server("in-process", **options) as server:
        client = server.client()
        await client.create(service("web"))
        await asyncio.sleep(5)
        found = await client.get(Service, "web", namespace="default")
        assert not found.metadata.finalizers


async def test_addresses_stay_after_a_restart(tmp_path: Path) -> None:
    store: Any = {"nodes": 1, "store": f"sqlite:{tmp_path / 'cluster.db'}"}
    async with start_test_server("in-process", **store) as server:
        client = server.client()
        for name in ("b", "a"):
            await client.create(service(name))
            await address(client, name)
    async with start_test_server("in-process", **store) as server:
        client = server.client()
        await client.create(service("0"))
        assert [await address(client, name) for name in ("0", "a", "b")] == [
            ["203.0.113.3"],
            ["203.0.113.2"],
            ["203.0.113.1"],
        ]


def write_nodes(directory: Path) -> Path:
    """Write a file with one node that a cloud has to initialize."""
    file = directory / "nodes.yaml"
    taint = "{key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule}"
    file.write_text(f"nodes: [{{name: n, taints: [{taint}]}}]")
    return file


async def test_simulated_node_waits_for_a_cloud(tmp_path: Path) -> None:
    names = ["cloud-node-controller", "cloud-node-lifecycle-controller", "node-route-controller"]
    options: Any = {"nodes": write_nodes(tmp_path), "disable_controllers": names}
    async with start_test_server("in-process", **options) as server:
        node = await server.client().get(Node, "n")
        assert node.spec is not None
        assert node.spec.provider_id is None
        assert "node.cloudprovider.kubernetes.io/uninitialized" in [
            taint.key for taint in node.spec.taints or ()
        ]


async def test_uninitialized_simulated_node(tmp_path: Path) -> None:
    file = write_nodes(tmp_path)
    async with start_test_server("in-process", nodes=file) as server:
        client = server.client()

        def has_zone(node: Node | None) -> bool:
            return node is not None and "topology.kubernetes.io/zone" in (node.metadata.labels or {})

        node = await client.wait(Node, name="n", until=has_zone, timeout=30)
        assert node is not None
        assert node.spec is not None
        assert node.spec.provider_id == "kubewright://n"
        assert not [taint for taint in node.spec.taints or () if "uninitialized" in (taint.key or "")]


async def test_wrong_range() -> None:
    with pytest.raises(ValueError, match="has host bits set"):
        async with start_test_server("in-process", nodes=1, load_balancer_range="10.0.0.1/8"):
            pass
