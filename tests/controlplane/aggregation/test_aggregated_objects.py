"""Namespace deletion and garbage collection of objects of an extension API server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controlplane.aggregation.toy_server import GROUP, SERVICES, until
from tests.controlplane.path_client import PathClient
from tests.waiting import eventually

from kubewright.api.errors import NotFound
from kubewright.apiserver.http.server import HTTPServer
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.controllers.garbage_collector import GarbageCollector

Object = dict[str, Any]


def toys(namespace: str = "shop") -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/toys"


def config_maps(namespace: str = "shop") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def create(
    client: PathClient, path: str, name: str, owner: Object | None = None, **meta: Any
) -> Object:
    metadata: Object = {"name": name, **meta}
    if owner is not None:
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
    kinds = {
        "toys": (f"{GROUP}/v1", "Toy"),
        "configmaps": ("v1", "ConfigMap"),
        "namespaces": ("v1", "Namespace"),
    }
    api_version, kind = kinds[path.rpartition("/")[2]]
    return await client.create(path, {"apiVersion": api_version, "kind": kind, "metadata": metadata})


async def is_deleted(client: PathClient, path: str) -> bool:
    try:
        await client.get(path)
    except NotFound:
        return True
    return False


@pytest.fixture
async def shop(aggregated: PathClient) -> PathClient:
    """A client, and a namespace `shop`."""
    await create(aggregated, "/api/v1/namespaces", "shop")
    return aggregated


async def test_namespace_deletion_deletes_aggregated_objects(shop: PathClient) -> None:
    await create(shop, toys(), "bear")
    await create(shop, toys("default"), "stays")
    await shop.delete("/api/v1/namespaces/shop")
    await eventually(lambda: is_deleted(shop, "/api/v1/namespaces/shop"))
    assert await is_deleted(shop, f"{toys()}/bear")
    assert not await is_deleted(shop, f"{toys('default')}/stays")


async def test_finalizer_of_an_aggregated_object_delays_the_deletion(
    plane: ControlPlane, shop: PathClient
) -> None:
    await create(shop, toys(), "bear", finalizers=["example.com/hold"])
    await shop.delete("/api/v1/namespaces/shop")
    await plane.wait_until_idle()
    namespace = await shop.get("/api/v1/namespaces/shop")
    messages = {each["type"]: each["message"] for each in namespace["status"]["conditions"]}
    assert (
        messages["NamespaceContentRemaining"]
        == f"Some resources are remaining: toys.{GROUP} has 1 resource instances"
    )
    assert "example.com/hold in 1 resource instances" in messages["NamespaceFinalizersRemaining"]
    await shop.merge(f"{toys()}/bear", {"metadata": {"finalizers": None}})
    await eventually(lambda: is_deleted(shop, "/api/v1/namespaces/shop"))


async def test_unavailable_api_service_delays_the_deletion(
    plane: ControlPlane, toy: HTTPServer, shop: PathClient
) -> None:
    await toy.stop(0.1)
    (controller,) = plane.aggregator.availability.controllers
    assert controller.queue is not None
    controller.queue.add(f"v1.{GROUP}")
    await until(shop, "FailedDiscoveryCheck")
    await plane.wait_until_idle()
    await create(shop, config_maps(), "deleted-anyway")
    await shop.delete("/api/v1/namespaces/shop")

    async def reported() -> bool:
        status = (await shop.get("/api/v1/namespaces/shop"))["status"]
        found = {each["type"]: each for each in status.get("conditions") or ()}
        failure = found.get("NamespaceDeletionDiscoveryFailure")
        if failure is None:
            return False
        assert (failure["status"], failure["reason"]) == ("True", "DiscoveryFailed")
        assert failure["message"] == (
            "Discovery failed for some groups, 1 failing: "
            "unable to retrieve the complete list of server APIs: "
            f"{GROUP}/v1: stale GroupVersion discovery: {GROUP}/v1"
        )
        return True

    await eventually(reported)
    assert await is_deleted(shop, f"{config_maps()}/deleted-anyway"), "other content is deleted"
    await shop.delete(f"{SERVICES}/v1.{GROUP}")
    await eventually(lambda: is_deleted(shop, "/api/v1/namespaces/shop"))


async def test_aggregated_dependent_of_a_deleted_owner_is_deleted(shop: PathClient) -> None:
    owner = await create(shop, config_maps(), "owner")
    await create(shop, toys(), "bear", owner)
    await shop.delete(f"{config_maps()}/owner")
    await eventually(lambda: is_deleted(shop, f"{toys()}/bear"))


async def test_dependent_of_a_deleted_aggregated_owner_is_deleted(
    plane: ControlPlane, shop: PathClient
) -> None:
    owner = await create(shop, toys(), "bear")
    await create(shop, config_maps(), "dependent", owner)
    await plane.wait_until_idle()
    assert not await is_deleted(shop, f"{config_maps()}/dependent"), "its owner exists"
    await shop.delete(f"{toys()}/bear")
    await eventually(lambda: is_deleted(shop, f"{config_maps()}/dependent"))


async def test_foreground_deletion_of_an_aggregated_owner(plane: ControlPlane, shop: PathClient) -> None:
    owner = await create(shop, toys(), "bear")
    await create(shop, config_maps(), "held", owner, finalizers=["example.com/hold"])
    await shop.delete(f"{toys()}/bear", propagation="Foreground")

    async def deleting() -> bool:
        found = await shop.get(f"{config_maps()}/held")
        return "deletionTimestamp" in found["metadata"]

    await eventually(deleting)
    await plane.wait_until_idle()
    assert not await is_deleted(shop, f"{toys()}/bear"), "it waits for its dependent"
    await shop.merge(f"{config_maps()}/held", {"metadata": {"finalizers": None}})
    await eventually(lambda: is_deleted(shop, f"{toys()}/bear"))


async def test_orphaned_aggregated_dependent_loses_its_reference(
    plane: ControlPlane, shop: PathClient
) -> None:
    owner = await create(shop, config_maps(), "owner")
    bear = await create(shop, toys(), "bear", owner)
    (collector,) = [each for each in plane.cluster.manager or () if isinstance(each, GarbageCollector)]

    async def observed() -> bool:
        return bear["metadata"]["uid"] in collector.graph.nodes

    await eventually(observed)
    await shop.delete(f"{config_maps()}/owner", propagation="Orphan")
    await eventually(lambda: is_deleted(shop, f"{config_maps()}/owner"))
    assert "ownerReferences" not in (await shop.get(f"{toys()}/bear"))["metadata"]
