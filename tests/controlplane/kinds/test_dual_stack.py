"""Dual-stack services, compared with responses of kube-apiserver.

`data/dual_stack_services.json` was recorded from kube-apiserver 1.36 with the ranges of these tests. Each
record has the requests for a service `s` (or `t`: method `POST2`) and the status codes with spec or message.
Allocated addresses are shown as `<IPv4>` and `<IPv6>`.
"""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubewright.controlplane import ControlPlane
from kubewright.controlplane.configuration.plane_options import parse_service_ranges
from kubewright.storage.memory import MemoryStorage

from .conftest import MERGE, Cluster

RANGES = "10.96.0.0/16,fd00:10:96::/112"
SERVICES = "/api/v1/namespaces/default/services"
RECORDS = json.loads(Path(__file__).with_name("data").joinpath("dual_stack_services.json").read_text())


def plane(**settings: Any) -> ControlPlane:
    return ControlPlane(port=None, controllers=False, service_cluster_ip_range=RANGES, **settings)


def shape(status: int, body: Any, requests: Any) -> list[Any]:
    """Return a response as in the records."""
    given = json.dumps(requests)

    def show(found: re.Match[str]) -> str:
        address = found[0]
        if address in given:
            return address
        return "<IPv6>" if ":" in address else "<IPv4>"

    def hide(text: str) -> str:
        return re.sub(r"10\.96\.\d+\.\d+|fd00:10:96::[0-9a-f]+", show, text)

    if body.get("kind") == "Status":
        return [status, hide(body.get("message", "")) if status >= 400 else ""]
    fields = ("type", "ipFamilies", "ipFamilyPolicy", "clusterIP", "clusterIPs")
    spec = {field: body["spec"][field] for field in fields if field in body["spec"]}
    return [status, json.loads(hide(json.dumps(spec)))]


async def send(cluster: Cluster, method: str, body: Any) -> tuple[int, Any]:
    if method in ("POST", "POST2"):
        name = "t" if method == "POST2" else "s"
        return await cluster.call("POST", SERVICES, {**body, "metadata": {"name": name}})
    if method == "PATCH":
        return await cluster.call(method, f"{SERVICES}/s", body, type=MERGE)
    return await cluster.call(method, f"{SERVICES}/s", body)


async def addresses(cluster: Cluster) -> list[tuple[str, str]]:
    """Return service and address of all IPAddress objects except that of the service `kubernetes`."""
    _, found = await cluster.call("GET", "/apis/networking.k8s.io/v1/ipaddresses")
    for each in found["items"]:
        family = each["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"]
        assert family == f"IPv{ipaddress.ip_address(each['metadata']['name']).version}"
    pairs = [(each["spec"]["parentRef"]["name"], each["metadata"]["name"]) for each in found["items"]]
    return sorted(pair for pair in pairs if pair[0] != "kubernetes")


async def cluster_ips(cluster: Cluster) -> list[tuple[str, str]]:
    """Return name and address of all services except `kubernetes`."""
    _, found = await cluster.call("GET", SERVICES)
    return sorted(
        (each["metadata"]["name"], address)
        for each in found["items"]
        for address in each["spec"].get("clusterIPs") or ()
        if each["metadata"]["name"] != "kubernetes" and address != "None"
    )


async def replay(cluster: Cluster, record: Any) -> list[Any]:
    """Return the responses to the requests of a record; each address has its IPAddress afterwards."""
    for service in ("s", "t"):
        await cluster.call("DELETE", f"{SERVICES}/{service}")
    assert await addresses(cluster) == []
    responses = [shape(*await send(cluster, *each), record["requests"]) for each in record["requests"]]
    assert await addresses(cluster) == await cluster_ips(cluster)
    return responses


async def test_services_are_as_in_kube_apiserver() -> None:
    async with plane() as running:
        found = {name: await replay(Cluster(running), record) for name, record in RECORDS.items()}
    recorded = {name: record["responses"] for name, record in RECORDS.items()}
    different = {name: (found[name], recorded[name]) for name in RECORDS if found[name] != recorded[name]}
    assert different == {}


async def test_the_default_range_has_both_families() -> None:
    async with plane() as running:
        cluster = Cluster(running)
        _, cidr = await cluster.call("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        assert cidr["spec"]["cidrs"] == RANGES.split(",")
        _, service = await cluster.call("GET", f"{SERVICES}/kubernetes")
        assert service["spec"]["clusterIPs"] == ["10.96.0.1"]
        assert (service["spec"]["ipFamilies"], service["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_a_second_range_can_be_added_to_a_cluster() -> None:
    storage = MemoryStorage()
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "ipFamilyPolicy": "PreferDualStack"}}
    async with ControlPlane(
        store=storage, port=None, controllers=False, service_cluster_ip_range="10.96.0.0/16"
    ) as running:
        status, service = await Cluster(running).call("POST", SERVICES, body)
        assert (status, service["spec"]["ipFamilies"]) == (201, ["IPv4"])
    async with plane(store=storage) as running:
        cluster = Cluster(running)
        _, cidr = await cluster.call("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        assert cidr["spec"]["cidrs"] == RANGES.split(",")
        _, service = await cluster.patch(f"{SERVICES}/s", {"metadata": {"labels": {"a": "b"}}})
        assert service["spec"]["ipFamilies"] == ["IPv4"]
        _, service = await cluster.patch(f"{SERVICES}/s", {"spec": {"ipFamilyPolicy": "RequireDualStack"}})
        assert service["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
        assert len(service["spec"]["clusterIPs"]) == 2


async def test_a_failed_create_releases_both_addresses() -> None:
    async with plane() as running:
        cluster = Cluster(running)
        ports = [{"port": 80, "nodePort": 30080}]
        spec = {"ports": ports, "type": "NodePort", "ipFamilyPolicy": "RequireDualStack"}
        assert (await cluster.call("POST", SERVICES, {"metadata": {"name": "a"}, "spec": spec}))[0] == 201
        assert (await cluster.call("POST", SERVICES, {"metadata": {"name": "b"}, "spec": spec}))[0] == 422
        assert (
            await cluster.call(
                "POST",
                f"{SERVICES}?dryRun=All",
                {
                    "metadata": {"name": "c"},
                    "spec": {"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"},
                },
            )
        )[0] == 201
        assert await addresses(cluster) == await cluster_ips(cluster)
        assert len(await addresses(cluster)) == 2


def test_ranges_must_be_of_different_families() -> None:
    assert parse_service_ranges("fd00::/112, 10.0.0.0/24") == ("fd00::/112", "10.0.0.0/24")
    for wrong in ("10.0.0.0/24,10.1.0.0/24", "10.0.0.0/24,fd00::/112,fd01::/112", "10.0.0.0/24,"):
        with pytest.raises(ValueError, match=r"IP famil|does not appear"):
            parse_service_ranges(wrong)
