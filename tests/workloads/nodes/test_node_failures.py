"""Node failures: conditions, taints, eviction and pod garbage collection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import condition

from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, patches
from kubewright.controlplane import ControlPlane
from kubewright.testing.server import start_test_server
from kubewright.workloads.nodes import SimulatedNodes

NODE_READY = ("True", "KubeletReady", "kubelet is posting ready status")


class Cluster:
    """A control plane with three nodes and the workload components."""

    def __init__(self, plane: Any, client: Client) -> None:
        self.plane, self.client = plane, client

    @property
    def nodes(self) -> SimulatedNodes:
        found: SimulatedNodes = self.plane.workloads.simulated_nodes
        return found

    async def create_pod(self, name: str, node: str, **spec: Any) -> None:
        container = {"name": "app", "image": "nginx:1"}
        await self.client.create(
            Unstructured(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"nodeName": node, "containers": [container], **spec},
                }
            )
        )
        await self.until("pods", name, lambda pod: condition(pod["status"], "Ready")[0] == "True", 10.0)

    async def until(
        self, kind: str, name: str, check: Callable[[dict[str, Any]], object], timeout: float = 120.0
    ) -> dict[str, Any]:
        """Wait until an object fulfils a condition."""
        async with asyncio.timeout(timeout):
            while True:
                found = await self.client.get(kind, name)
                if check(found.raw):
                    return found.raw
                await asyncio.sleep(0.2)

    async def until_deleted(self, name: str, timeout: float) -> None:
        """Wait until a pod does not exist."""
        async with asyncio.timeout(timeout):
            while await self.client.get_or_none("pods", name) is not None:
                await asyncio.sleep(0.2)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with start_test_server("in-process", nodes=3) as server:
        yield Cluster(server.plane, server.client())


def taints(node: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["key"].rpartition("/")[2], one["effect"]) for one in node["spec"].get("taints") or ()}


async def test_registered_nodes(cluster: Cluster) -> None:
    nodes = {each.metadata.name: each.raw for each in await cluster.client.list("nodes")}
    assert sorted(nodes) == ["node-0", "node-1", "node-2"]
    node = nodes["node-0"]
    assert condition(node["status"], "Ready") == NODE_READY
    assert node["status"]["capacity"] == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
    }
    assert node["spec"]["podCIDR"] == "10.244.0.0/24"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0"
    lease = await cluster.client.get("leases.coordination.k8s.io", "node-0", namespace="kube-node-lease")
    assert lease.raw["spec"]["holderIdentity"] == "node-0"
    before = lease.raw["spec"]["renewTime"]
    await asyncio.sleep(11)
    lease = await cluster.client.get("leases.coordination.k8s.io", "node-0", namespace="kube-node-lease")
    assert lease.raw["spec"]["renewTime"] > before


async def test_nothing_but_heartbeats_before_the_first_pod() -> None:
    async with ControlPlane(port=None, nodes=2) as plane:
        assert [each.metadata.name for each in await plane.client().list("nodes")] == ["node-0", "node-1"]
        assert plane.workloads is not None
        assert not plane.workloads.started
        nodes = await plane.workloads.start_nodes()
        assert sorted(nodes.nodes) == ["node-0", "node-1"]


async def test_test_server_steers_nodes_and_pods() -> None:
    async with start_test_server("in-process", nodes=1) as server:
        server.pods.set("app=web", exit_code=4)
        cluster = Cluster(server.plane, server.client())
        metadata = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
        spec = {
            "nodeName": "node-0",
            "restartPolicy": "Never",
            "containers": [{"name": "app", "image": "nginx:1"}],
        }
        await cluster.client.create(
            Unstructured({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        )
        pod = await cluster.until("pods", "web", lambda pod: pod["status"].get("phase") == "Failed", 10.0)
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
        server.nodes.fail("node-0")
        with pytest.raises(KeyError, match="not simulated"):
            server.nodes.fail("missing")


async def test_silent_node_becomes_unknown_and_its_pods_are_evicted(cluster: Cluster) -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    tolerations = [{**unreachable, "tolerationSeconds": 60}]
    await cluster.create_pod("web", "node-1", tolerations=tolerations)
    await cluster.create_pod("other", "node-0")
    loop = asyncio.get_running_loop()
    cluster.nodes.fail("node-1")
    failed_at = loop.time()
    node = await cluster.until(
        "nodes", "node-1", lambda node: condition(node["status"], "Ready")[0] == "Unknown"
    )
    assert 40 <= loop.time() - failed_at <= 55
    assert condition(node["status"], "Ready")[1:] == (
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    assert condition(node["status"], "MemoryPressure")[0] == "Unknown"
    node = await cluster.until("nodes", "node-1", lambda node: len(taints(node)) == 2, 20.0)
    assert taints(node) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    pod = await cluster.until(
        "pods", "web", lambda pod: condition(pod["status"], "Ready")[0] == "False", 10.0
    )
    tainted_at = loop.time()
    pod = await cluster.until("pods", "web", lambda pod: pod["metadata"].get("deletionTimestamp"), 90.0)
    assert 55 <= loop.time() - tainted_at <= 65
    assert condition(pod["status"], "DisruptionTarget")[:2] == ("True", "DeletionByTaintManager")
    # The kubelet does not run: the pod stays until the node recovers.
    await asyncio.sleep(60)
    assert await cluster.client.get_or_none("pods", "web") is not None
    await cluster.nodes.recover("node-1")
    await cluster.until_deleted("web", 5.0)
    node = await cluster.until("nodes", "node-1", lambda node: not taints(node), 10.0)
    assert condition(node["status"], "Ready") == NODE_READY
    other = await cluster.client.get("pods", "other")
    assert condition(other.raw["status"], "Ready")[0] == "True"
    events = [each.raw for each in await cluster.client.list("events", namespace="default")]
    reasons = {(event["involvedObject"]["name"], event["reason"]) for event in events}
    assert {("web", "TaintManagerEviction"), ("node-1", "NodeNotReady"), ("web", "NodeNotReady")} <= reasons


async def test_recovered_node_cancels_the_eviction(cluster: Cluster) -> None:
    await cluster.create_pod("web", "node-1")
    cluster.nodes.fail("node-1")
    await cluster.until("nodes", "node-1", lambda node: ("unreachable", "NoExecute") in taints(node))
    await cluster.nodes.recover("node-1")
    await cluster.until("nodes", "node-1", lambda node: not taints(node), 10.0)
    await asyncio.sleep(400)
    pod = await cluster.client.get("pods", "web")
    assert condition(pod.raw["status"], "Ready")[0] == "True"
    assert not pod.raw["metadata"].get("deletionTimestamp")


async def test_no_eviction_when_all_nodes_have_failed(cluster: Cluster) -> None:
    await cluster.create_pod("web", "node-1", tolerations=[])
    for name in ("node-0", "node-1", "node-2"):
        cluster.nodes.fail(name)
    await cluster.until("nodes", "node-1", lambda node: condition(node["status"], "Ready")[0] == "Unknown")
    await asyncio.sleep(300)
    effects = set()
    for node in await cluster.client.list("nodes"):
        effects |= taints(node.raw)
    assert effects <= {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert ("unreachable", "NoSchedule") in effects


async def test_no_execute_taint_of_a_user(cluster: Cluster) -> None:
    await cluster.create_pod("web", "node-2")
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await cluster.client.patch("nodes", "node-2", patches.merge_patch({"spec": {"taints": [taint]}}))
    await cluster.until_deleted("web", 5.0)


async def test_cordon_and_pressure_taints(cluster: Cluster) -> None:
    await cluster.create_pod("web", "node-0")
    await cluster.nodes.cordon("node-0")
    await cluster.until(
        "nodes", "node-0", lambda node: taints(node) == {("unschedulable", "NoSchedule")}, 5.0
    )
    await cluster.nodes.cordon("node-0", unschedulable=False)
    await cluster.nodes.set_pressure("node-0", "MemoryPressure")
    node = await cluster.until(
        "nodes", "node-0", lambda node: ("memory-pressure", "NoSchedule") in taints(node), 5.0
    )
    assert condition(node["status"], "MemoryPressure")[1] == "KubeletHasInsufficientMemory"


async def test_pods_of_a_deleted_node_are_collected(cluster: Cluster) -> None:
    await cluster.create_pod("web", "node-0")
    cluster.nodes.fail("node-0")
    await cluster.client.delete("nodes", "node-0")
    await asyncio.sleep(30)
    assert await cluster.client.get_or_none("pods", "web") is not None
    await cluster.until_deleted("web", 30.0)


async def test_terminating_pods_of_an_out_of_service_node_are_collected(cluster: Cluster) -> None:
    await cluster.create_pod("web", "node-0")
    cluster.nodes.fail("node-0")
    await cluster.until("nodes", "node-0", lambda node: condition(node["status"], "Ready")[0] == "Unknown")
    await cluster.client.delete("pods", "web")
    await asyncio.sleep(60)
    assert await cluster.client.get_or_none("pods", "web") is not None
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await cluster.client.patch(
        "nodes", "node-0", patches.strategic_merge_patch({"spec": {"taints": [taint]}})
    )
    await cluster.until_deleted("web", 5.0)


async def test_drain_respects_pods_of_other_nodes(cluster: Cluster) -> None:
    await cluster.create_pod("a", "node-0")
    await cluster.create_pod("b", "node-1")
    await cluster.nodes.drain("node-0")
    assert await cluster.client.get_or_none("pods", "a") is None
    assert await cluster.client.get_or_none("pods", "b") is not None
    assert (await cluster.client.get("nodes", "node-0")).raw["spec"]["unschedulable"]


async def test_nodes_of_kwok_are_simulated(cluster: Cluster) -> None:
    metadata = {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    await cluster.client.create(Unstructured({"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
    await cluster.create_pod("web", "fake")
    node = await cluster.client.get("nodes", "fake")
    assert condition(node.raw["status"], "Ready") == NODE_READY
    assert node.raw["spec"]["podCIDR"]


async def test_pods_continue_after_a_restart_of_the_control_plane(tmp_path: Path) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "nginx:1"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
    }

    def is_ready(deployment: dict[str, Any]) -> bool:
        return bool((deployment.get("status") or {}).get("readyReplicas") == 3)

    async def pods(client: Client) -> dict[str, tuple[str, str]]:
        found = [each.raw for each in await client.list("pods", namespace="default")]
        return {
            pod["metadata"]["uid"]: (
                pod["status"]["podIP"],
                pod["status"]["containerStatuses"][0]["containerID"],
            )
            for pod in found
        }

    store = f"sqlite:{tmp_path / 'state.db'}"
    async with start_test_server("in-process", nodes=2, store=store) as server:
        first = Cluster(server.plane, server.client())
        await first.client.create(Unstructured(deployment))
        await first.until("deployments.apps", "web", is_ready, 30.0)
        before = await pods(first.client)
    async with start_test_server("in-process", nodes=2, store=store) as server:
        again = Cluster(server.plane, server.client())
        await asyncio.sleep(120)
        assert await pods(again.client) == before
        await again.until("deployments.apps", "web", is_ready, 5.0)
        await again.client.delete("pods", (await again.client.list("pods"))[0].metadata.name)
        await asyncio.sleep(5)
        await again.until("deployments.apps", "web", is_ready, 30.0)
        after = await pods(again.client)
        assert len(after.keys() & before.keys()) == 2
        assert len({address for address, _ in after.values()}) == 3
