"""Load balancers of services: creation, changes, failures, nodes and deletion."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.waiting import eventually

from kubewright.api.core.v1 import Node, Service
from kubewright.client import patches
from kubewright.workloads.cloud import ImplementedElsewhere, RetryAfter

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"


async def test_service_gets_an_address(cluster: Any) -> None:
    await cluster.create_node("n1")
    await cluster.create_service("web")
    assert await cluster.address("web") == "203.0.113.1"
    service = await cluster.service("web")
    assert service.metadata.finalizers == [FINALIZER]
    balancer = await cluster.balancer("web")
    assert (balancer.nodes, list(balancer.ports), balancer.source_ranges) == (["n1"], [80], ["0.0.0.0/0"])
    assert balancer.ports[80] == service.spec.ports[0].node_port
    assert await cluster.messages("web") == [
        ("EnsuringLoadBalancer", "Ensuring load balancer"),
        ("EnsuredLoadBalancer", "Ensured load balancer"),
    ]
    (event, *_) = await cluster.client.list("events", namespace="default")
    assert event.raw["source"] == {"component": "service-controller"}
    await cluster.create_service("other")
    assert await cluster.address("other") == "203.0.113.2"


async def test_component_starts_with_first_load_balancer(cluster: Any) -> None:
    await cluster.create_service("internal", type="ClusterIP")
    await cluster.create_node("n1")
    await asyncio.sleep(1)
    assert cluster.workloads.started == frozenset()
    await cluster.create_service("web")
    await cluster.address("web")
    assert cluster.workloads.started == {"service-lb-controller"}


async def test_other_class_is_ignored(cluster: Any) -> None:
    await cluster.create_service("web", loadBalancerClass="example.com/other")
    await asyncio.sleep(10)
    assert cluster.workloads.started == {"service-lb-controller"}
    assert not (await cluster.service("web")).metadata.finalizers
    assert await cluster.events("web") == []


async def test_changed_fields_sync_again(cluster: Any) -> None:
    await cluster.create_node("n1")
    await cluster.create_service("web")
    await cluster.address("web")
    change = {"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local"}}
    await cluster.patch_service("web", change)

    async def changed() -> bool:
        return (await cluster.balancer("web")).source_ranges == ["10.0.0.0/8"]

    await eventually(changed)
    service, balancer = await cluster.service("web"), await cluster.balancer("web")
    assert balancer.health_check_port == service.spec.health_check_node_port
    assert balancer.health_check_port
    assert await cluster.address("web") == "203.0.113.1"
    # A label does not concern the load balancer.
    before = (await cluster.events("web")), cluster.cloud.load_balancers.by_name.copy()
    await cluster.patch_service("web", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(5)
    assert (await cluster.events("web"), cluster.cloud.load_balancers.by_name) == before


async def test_requested_address(cluster: Any) -> None:
    await cluster.create_service("web", loadBalancerIP="203.0.113.77")
    assert await cluster.address("web") == "203.0.113.77"
    await cluster.create_service("same", loadBalancerIP="203.0.113.77")
    await eventually(lambda: _has_event(cluster, "same", "already in use"))
    await cluster.create_service("outside", loadBalancerIP="192.0.2.1")
    text = "loadBalancerIP 192.0.2.1 is not in the load balancer range 203.0.113.0/24"
    await eventually(lambda: _has_event(cluster, "outside", text))
    # The address is free again after the deletion, and the failed service is retried with backoff.
    await cluster.client.delete(Service, "web", namespace="default")
    assert await cluster.address("same") == "203.0.113.77"


async def _has_event(cluster: Any, name: str, text: str) -> bool:
    return any(text in message for _, message in await cluster.messages(name))


async def test_deletion_waits_for_the_cloud(cluster: Any) -> None:
    await cluster.create_node("n1")
    await cluster.create_service("web")
    await cluster.address("web")
    cluster.cloud.load_balancers.errors.extend((ConnectionError("cloud is down"),))
    await cluster.client.delete(Service, "web", namespace="default")
    text = "failed to check if load balancer exists before cleanup: cloud is down"
    await eventually(lambda: _has_event(cluster, "web", f"Error syncing load balancer: {text}"))
    assert (await cluster.service("web")).metadata.deletion_timestamp is not None
    await eventually(lambda: _is_deleted(cluster, "web"))
    assert cluster.cloud.load_balancers.by_name == {}
    assert (await cluster.events("web"))[-2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]


async def _is_deleted(cluster: Any, name: str) -> bool:
    return await cluster.client.get_or_none(Service, name, namespace="default") is None


async def test_type_change_deletes_the_load_balancer(cluster: Any) -> None:
    await cluster.create_node("n1")
    await cluster.create_service("web")
    await cluster.address("web")
    await cluster.patch_service("web", {"spec": {"type": "ClusterIP"}})

    async def cleaned() -> bool:
        service = await cluster.service("web")
        status = service.status.load_balancer if service.status is not None else None
        return not service.metadata.finalizers and not (status is not None and status.ingress)

    await eventually(cleaned)
    assert cluster.cloud.load_balancers.by_name == {}
    assert (await cluster.events("web"))[-2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    await cluster.patch_service("web", {"spec": {"type": "LoadBalancer"}})
    assert await cluster.address("web") == "203.0.113.1"


async def test_nodes_are_updated(cluster: Any) -> None:
    await cluster.create_node("n1")
    await cluster.create_node("excluded", metadata={"labels": {EXCLUDE: ""}})
    await cluster.create_node("kept", metadata={"labels": {EXCLUDE: "false"}}, ready="False")
    await cluster.create_service("web")
    await cluster.address("web")
    assert (await cluster.balancer("web")).nodes == ["kept", "n1"]

    async def nodes_are(*names: str) -> None:
        async def check() -> bool:
            return (await cluster.balancer("web")).nodes == list(names)

        await eventually(check)

    await cluster.create_node("n2")
    await nodes_are("kept", "n1", "n2")
    assert (await cluster.messages("web"))[-1] == (
        "UpdatedLoadBalancer",
        "Updated load balancer with new hosts",
    )
    label = patches.merge_patch({"metadata": {"labels": {EXCLUDE: "true"}}})
    await cluster.client.patch(Node, "kept", label)
    await nodes_are("n1", "n2")
    await cluster.client.delete(Node, "n1")
    await nodes_are("n2")
    await cluster.client.delete(Node, "n2")
    await nodes_are()
    assert (await cluster.messages("web"))[-1] == (
        "UnAvailableLoadBalancer",
        "There are no available nodes for LoadBalancer",
    )


async def test_failed_node_update_is_followed_by_a_complete_sync(cluster: Any) -> None:
    await cluster.create_node("n1")
    await cluster.create_service("web")
    await cluster.address("web")
    cluster.cloud.load_balancers.errors.append(ConnectionError("cloud is down"))
    await cluster.create_node("n2")
    text = (
        "Error updating load balancer with new hosts [n1 n2] "
        "[node names limited, total number of nodes: 2], error: cloud is down"
    )
    await eventually(lambda: _has_event(cluster, "web", text))

    async def updated() -> bool:
        return (await cluster.balancer("web")).nodes == ["n1", "n2"]

    await eventually(updated)


async def test_retry_after_a_fixed_delay(cluster: Any) -> None:
    loop = asyncio.get_running_loop()
    await cluster.create_node("n1")
    errors = [RetryAfter("still provisioning", delay=20) for _ in range(3)]
    cluster.cloud.load_balancers.errors.extend(errors)
    began = loop.time()
    await cluster.create_service("web")
    await cluster.address("web")
    assert 60 <= round(loop.time() - began, 3) < 62
    text = "Error syncing load balancer: failed to ensure load balancer: still provisioning"
    assert await _has_event(cluster, "web", text)


async def test_other_errors_back_off(cluster: Any) -> None:
    loop = asyncio.get_running_loop()
    cluster.cloud.load_balancers.errors.extend(ConnectionError("cloud is down") for _ in range(3))
    began = loop.time()
    await cluster.create_service("web")
    await cluster.address("web")
    assert 5 + 10 + 20 <= round(loop.time() - began, 3) < 37
    assert "UnAvailableLoadBalancer" in await cluster.events("web")


async def test_load_balancer_of_another_controller(cluster: Any) -> None:
    cluster.cloud.load_balancers.errors.append(ImplementedElsewhere())
    await cluster.create_service("web")

    async def finalized() -> bool:
        return (await cluster.service("web")).metadata.finalizers == [FINALIZER]

    await eventually(finalized)
    await asyncio.sleep(600)
    assert "SyncLoadBalancerFailed" not in await cluster.events("web")
    assert "EnsuredLoadBalancer" not in await cluster.events("web")


async def test_service_deleted_without_finalizer(cluster: Any) -> None:
    await cluster.create_service("web")
    await cluster.address("web")
    await cluster.patch_service("web", {"metadata": {"finalizers": None}})
    await cluster.client.delete(Service, "web", namespace="default")
    await eventually(lambda: not cluster.cloud.load_balancers.by_name)
