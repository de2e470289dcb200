"""Initialization, deletion and routes of nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.waiting import eventually

from kubewright.api.core.v1 import Node, NodeAddress
from kubewright.api.meta import ObjectMeta
from kubewright.client import patches
from kubewright.workloads.cloud import Instance, Route
from kubewright.workloads.cloud.node_controller import PROVIDED_IP_ANNOTATION, select_node_ips

SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
ADDRESSES = [
    NodeAddress(type="InternalIP", address="10.0.0.5"),
    NodeAddress(type="ExternalIP", address="192.0.2.5"),
]


async def initialized(cluster: Any, name: str) -> Node:
    """Wait until a node has no taint of the cloud and its addresses are set."""

    async def check() -> Node | None:
        node: Node = await cluster.client.get(Node, name)
        tainted = any("uninitialized" in (taint.key or "") for taint in node.spec.taints or ())
        return None if tainted else node

    found: Node = await eventually(check)
    await asyncio.sleep(0.2)
    fresh: Node = await cluster.client.get(Node, found.name)
    return fresh


async def test_node_is_initialized(cluster: Any, uninitialized: dict[str, str]) -> None:
    labels = {"team": "a", "example.com/rack": "7", "example.kubernetes.io/x": "ignored"}
    cluster.cloud.instances.add(
        Instance("n1", "acme://i-1", "large", "west-1", "west", list(ADDRESSES), labels=labels)
    )
    other = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    await cluster.create_node("n1", taints=[uninitialized, other], metadata={"labels": {"team": "b"}})
    node = await initialized(cluster, "n1")
    assert node.spec.provider_id == "acme://i-1"
    assert "dedicated" in [taint.key for taint in node.spec.taints]
    found = node.metadata.labels
    assert {key: found[key] for key in sorted(found) if "hostname" not in key} == {
        "beta.kubernetes.io/instance-type": "large",
        "example.com/rack": "7",
        "failure-domain.beta.kubernetes.io/region": "west",
        "failure-domain.beta.kubernetes.io/zone": "west-1",
        "node.kubernetes.io/instance-type": "large",
        "team": "b",
        "topology.kubernetes.io/region": "west",
        "topology.kubernetes.io/zone": "west-1",
    }
    assert [(one.type, one.address) for one in node.status.addresses] == [
        ("InternalIP", "10.0.0.5"),
        ("ExternalIP", "192.0.2.5"),
        ("Hostname", "n1"),
    ]
    assert ("Synced", "Node synced successfully") in await cluster.messages("n1")
    # Addresses are updated every five minutes, labels immediately.
    cluster.cloud.instances.by_name["n1"].addresses = [NodeAddress(type="InternalIP", address="10.0.0.6")]
    change = {"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "west-2"}}}
    await cluster.client.patch(Node, "n1", patches.merge_patch(change))
    await asyncio.sleep(1)
    node = await cluster.client.get(Node, "n1")
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "west-2"
    assert node.status.addresses[0].address == "10.0.0.5"
    await asyncio.sleep(300)
    node = await cluster.client.get(Node, "n1")
    assert [one.address for one in node.status.addresses] == ["10.0.0.6", "n1"]


async def test_failed_initialization_is_retried(cluster: Any, uninitialized: dict[str, str]) -> None:
    cluster.cloud.instances.errors.extend(ConnectionError("cloud is down") for _ in range(3))
    await cluster.create_node("n1", taints=[uninitialized])
    node = await initialized(cluster, "n1")
    assert node.spec.provider_id == "kubewright://n1"


async def test_node_controllers_start_with_an_uninitialized_node(
    cluster: Any, uninitialized: dict[str, str]
) -> None:
    await cluster.create_node("plain")
    await asyncio.sleep(1)
    assert cluster.workloads.started == frozenset()
    await cluster.create_node("n1", taints=[uninitialized])
    await initialized(cluster, "n1")
    assert cluster.workloads.started == {
        "cloud-node-controller",
        "cloud-node-lifecycle-controller",
        "node-route-controller",
    }


def test_node_ip_of_the_kubelet() -> None:
    extra = NodeAddress(type="InternalIP", address="10.0.1.5")
    node = Node(metadata=ObjectMeta(name="n", annotations={PROVIDED_IP_ANNOTATION: "10.0.1.5"}))
    chosen = select_node_ips(node, [*ADDRESSES, extra])
    assert [one.address for one in chosen] == ["10.0.1.5", "192.0.2.5"]
    with pytest.raises(ValueError, match=r"matches ip: 10\.0\.1\.5"):
        select_node_ips(node, ADDRESSES)


async def test_shut_down_and_terminated_instances(cluster: Any, uninitialized: dict[str, str]) -> None:
    for name in ("n1", "n2"):
        await cluster.create_node(name, taints=[uninitialized])
        await initialized(cluster, name)
    cluster.cloud.instances.shut_down("n1")
    cluster.cloud.instances.terminate("n2")
    await asyncio.sleep(30)
    assert not await has_shutdown_taint(cluster)
    assert await cluster.client.get_or_none(Node, "n2") is not None, "the node is still ready"

    for name in ("n1", "n2"):
        await cluster.set_node_status(name, {"conditions": [{"type": "Ready", "status": "Unknown"}]})
    await eventually(lambda: has_shutdown_taint(cluster))

    async def deleted() -> bool:
        return await cluster.client.get_or_none(Node, "n2") is None

    await eventually(deleted)
    text = "Deleting node n2 because it does not exist in the cloud provider"
    assert ("DeletingNode", text) in await cluster.messages("n2")

    cluster.cloud.instances.shut_down("n1", False)
    await cluster.set_node_status("n1", {"conditions": [{"type": "Ready", "status": "True"}]})

    async def untainted() -> bool:
        return not await has_shutdown_taint(cluster)

    await eventually(untainted)
    # A node that is not ready is checked again later, and errors of the cloud do not delete it.
    await cluster.set_node_status("n1", {"conditions": [{"type": "Ready", "status": "False"}]})
    await asyncio.sleep(7)
    cluster.cloud.instances.errors.append(ConnectionError("cloud is down"))
    await asyncio.sleep(5)
    assert not cluster.cloud.instances.errors
    assert await cluster.client.get_or_none(Node, "n1") is not None
    cluster.cloud.instances.terminate("n1")
    await asyncio.sleep(6)
    assert await cluster.client.get_or_none(Node, "n1") is None


async def has_shutdown_taint(cluster: Any) -> bool:
    node = await cluster.client.get(Node, "n1")
    return any(taint.key == SHUTDOWN and taint.effect == "NoSchedule" for taint in node.spec.taints or ())


async def test_routes_follow_nodes(cluster: Any, uninitialized: dict[str, str]) -> None:
    routes = cluster.cloud.routes
    stale = Route(name="stale", destination_cidr="10.244.9.0/24", target_node="deleted")
    foreign = Route(name="foreign", destination_cidr="192.168.0.0/24", target_node="other")
    routes.by_name.update(stale=stale, foreign=foreign)
    await cluster.create_node(
        "n1", taints=[uninitialized], spec={"podCIDRs": ["10.244.1.0/24"], "podCIDR": "10.244.1.0/24"}
    )

    def destinations() -> list[str]:
        return sorted(route.destination_cidr for route in routes.by_name.values())

    await eventually(lambda: destinations() == ["10.244.1.0/24", "192.168.0.0/24"])
    await eventually(lambda: condition(cluster, "n1", "False", "RouteCreated"))
    # A route that another client deletes is created again, and a changed address replaces the route.
    del routes.by_name[next(name for name in routes.by_name if "10.244.1" in name)]
    await asyncio.sleep(11)
    assert "10.244.1.0/24" in destinations()
    await cluster.set_node_status("n1", {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]})
    await asyncio.sleep(11)
    (route,) = [route for route in routes.by_name.values() if route.target_node == "n1"]
    assert "10.0.0.9" in [one.address for one in route.target_addresses or ()]

    routes.errors.append(ConnectionError("quota exceeded"))
    await cluster.create_node("n2", spec={"podCIDRs": ["10.244.2.0/24"], "podCIDR": "10.244.2.0/24"})
    await eventually(lambda: condition(cluster, "n2", "True", "NoRouteCreated"))
    ((reason, message),) = [one for one in await cluster.messages("n2") if one[0] == "FailedToCreateRoute"]
    assert reason
    assert "10.244.2.0/24 for node n2 after" in message
    assert message.endswith(": quota exceeded")
    await eventually(lambda: condition(cluster, "n2", "False", "RouteCreated"))
    await cluster.client.delete(Node, "n1")
    await eventually(lambda: destinations() == ["10.244.2.0/24", "192.168.0.0/24"])


async def condition(cluster: Any, name: str, status: str, reason: str) -> bool:
    node = await cluster.client.get(Node, name)
    return any(
        (one.type, one.status, one.reason) == ("NetworkUnavailable", status, reason)
        for one in node.status.conditions or ()
    )
