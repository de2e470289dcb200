"""EndpointSlices and Endpoints of services, and mirroring of Endpoints."""

from __future__ import annotations

import asyncio
from typing import Any

from kubewright.api.core.v1 import Endpoints
from kubewright.api.discovery.v1 import EndpointSlice
from kubewright.client import patches

ALL = ("endpointslice-controller", "endpoints-controller", "endpointslice-mirroring-controller")


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": "a"}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}], **spec},
    }


def without_selector(name: str) -> dict[str, Any]:
    made = service(name)
    del made["spec"]["selector"]
    return made


async def slices(cluster: Any, name: str = "web") -> list[EndpointSlice]:
    return list(
        await cluster.client.list(
            EndpointSlice, namespace="default", labels={"kubernetes.io/service-name": name}
        )
    )


async def test_endpoints_follow_pods(run: Any, pod: Any, node: Any) -> None:
    async with run(*ALL) as cluster:
        client = cluster.client
        await client.create(node("n1", zone="a"))
        await client.create(service(ports=[{"name": "http", "port": 80, "targetPort": "web"}]))

        async def placeholder() -> Any:
            return await slices(cluster)

        (empty,) = await cluster.eventually(placeholder)
        assert empty.name.startswith("web-")
        assert empty.metadata.labels == {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
        assert empty.endpoints in (None, [])
        for number in (1, 2):
            container = {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}
            await client.create(pod(f"p{number}", {"app": "web"}, containers=[container]))
            await cluster.set_pod(f"p{number}", ip=f"10.1.0.{number}", ready=number == 1)

        async def both() -> Any:
            (found,) = await slices(cluster)
            return found if len(found.endpoints or ()) == 2 else None

        found = await cluster.eventually(both)
        by_address = {each.addresses[0]: each for each in found.endpoints}
        first, second = by_address["10.1.0.1"], by_address["10.1.0.2"]
        assert (first.conditions.ready, first.conditions.serving, first.conditions.terminating) == (
            True,
            True,
            False,
        )
        assert second.conditions.ready is False
        assert (first.node_name, first.zone, first.target_ref.name) == ("n1", "a", "p1")
        assert [(port.name, port.port, port.protocol) for port in found.ports] == [("http", 8080, "TCP")]
        annotations = found.metadata.annotations or {}
        assert annotations["endpoints.kubernetes.io/last-change-trigger-time"].endswith("Z")

        async def subsets() -> Any:
            listed = await client.get(Endpoints, "web", namespace="default")
            return listed if listed.subsets and listed.subsets[0].not_ready_addresses else None

        listed = await cluster.eventually(subsets)
        (subset,) = listed.subsets
        assert [each.ip for each in subset.addresses] == ["10.1.0.1"]
        assert [each.ip for each in subset.not_ready_addresses] == ["10.1.0.2"]
        assert listed.metadata.labels == {
            "team": "a",
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        }
        # A pod that terminates is serving, but no longer ready.
        await client.delete("pods", "p1", namespace="default", grace_period=30)

        async def terminating() -> Any:
            (found,) = await slices(cluster)
            return [e.conditions for e in found.endpoints if e.conditions.terminating]

        (conditions,) = await cluster.eventually(terminating)
        assert (conditions.ready, conditions.serving) == (False, True)
        await client.delete("services", "web", namespace="default")

        async def no_endpoints() -> Any:
            return await client.get_or_none(Endpoints, "web", namespace="default") is None

        await cluster.eventually(no_endpoints)
        assert await cluster.events() == []


async def test_slices_are_limited_and_filled(run: Any, pod: Any, node: Any) -> None:
    async with run("endpointslice-controller") as cluster:
        client = cluster.client
        await client.create(node("n1"))
        await client.create(service(clusterIP="None"))
        for number in range(130):
            await client.create(pod(f"p{number}", {"app": "web"}))
            await cluster.set_pod(f"p{number}", ip=f"10.1.0.{number}")

        async def sizes() -> list[int]:
            return sorted(len(each.endpoints or ()) for each in await slices(cluster))

        async def filled() -> Any:
            return sum(await sizes()) == 130

        await cluster.eventually(filled)
        assert max(await sizes()) <= 100
        assert all(
            each.metadata.labels["service.kubernetes.io/headless"] == "" for each in await slices(cluster)
        )
        # Coalesced: far fewer writes than pods.
        assert len(cluster.requests) < 40
        writes = len(cluster.requests)
        await asyncio.sleep(600)
        assert len(cluster.requests) == writes


async def test_hints_and_services_without_pods(run: Any, pod: Any, node: Any) -> None:
    async with run("endpointslice-controller") as cluster:
        client = cluster.client
        await client.create(service(trafficDistribution="PreferSameNode"))
        await client.create(pod("p1", {"app": "web"}))
        await cluster.set_pod("p1", ip="10.1.0.1")
        await asyncio.sleep(5)
        (found,) = await slices(cluster)
        assert not found.endpoints, "the node of the pod does not exist"
        await client.create(node("n1", zone="z"))

        async def hints() -> Any:
            (found,) = await slices(cluster)
            return found.endpoints and found.endpoints[0].hints

        found_hints = await cluster.eventually(hints)
        assert found_hints.for_zones[0].name == "z"
        assert found_hints.for_nodes[0].name == "n1"
        change = patches.merge_patch({"spec": {"trafficDistribution": None}})
        await client.patch("services", "web", change, namespace="default")

        async def no_hints() -> Any:
            (found,) = await slices(cluster)
            return found.endpoints[0].hints is None

        await cluster.eventually(no_hints)


async def test_mirroring(run: Any) -> None:
    async with run("endpointslice-mirroring-controller") as cluster:
        client = cluster.client
        await client.create(without_selector("db"))
        addresses = [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]
        endpoints = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "db", "namespace": "default", "annotations": {"note": "x"}},
            "subsets": [{"addresses": addresses, "ports": [{"port": 5432}]}],
        }
        await client.create(endpoints)

        async def mirrored() -> Any:
            found = await slices(cluster, "db")
            return found if len(found) == 2 else None

        found = await cluster.eventually(mirrored)
        assert sorted(each.address_type for each in found) == ["IPv4", "IPv6"]
        managed = {each.metadata.labels["endpointslice.kubernetes.io/managed-by"] for each in found}
        assert managed == {"endpointslicemirroring-controller.k8s.io"}
        assert found[0].metadata.annotations == {"note": "x"}
        label = patches.merge_patch(
            {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
        )
        await client.patch("endpoints", "db", label, namespace="default")

        async def removed() -> Any:
            return not await slices(cluster, "db")

        await cluster.eventually(removed)


async def test_endpoints_without_a_service_are_kept(run: Any) -> None:
    async with run(*ALL) as cluster:
        client = cluster.client
        await client.create(
            {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own", "namespace": "default"}}
        )
        await client.create(service("other"))

        async def managed() -> Any:
            return await client.get_or_none(Endpoints, "other", namespace="default")

        await cluster.eventually(managed)
        assert await client.get_or_none(Endpoints, "own", namespace="default") is not None
