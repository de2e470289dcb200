"""Cluster DNS over real sockets: Services, headless Services, SRV, pods, PTR, aliases, hostile queries."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from typing import Any

import dns.asyncquery
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import eventually

from kubewright.client import Client
from kubewright.dns.cluster_dns import ClusterDNS
from kubewright.dns.records import dashed, undashed
from kubewright.dns.server import DENIED, RECORDS, DNSServer
from kubewright.dns.service import publish_dns_service
from kubewright.dns.upstream import system_servers
from kubewright.testing.server import start_test_server

ZONE = "cluster.local"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}],
            **spec,
        },
    }


def endpoint_slice(name: str, service_name: str, *endpoints: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": service_name},
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


class Cluster:
    """A control plane and a DNS server for it."""

    def __init__(self, client: Client, server: DNSServer) -> None:
        self.client = client
        self.server = server

    async def ask(self, name: str, kind: str = "A", *, tcp: bool = False) -> dns.message.Message:
        query = dns.message.make_query(name, kind)
        send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return await send(query, "127.0.0.1", port=self.server.port, timeout=60)

    async def texts(self, name: str, kind: str = "A", **options: Any) -> list[str]:
        response = await self.ask(name, kind, **options)
        return sorted(str(data) for record in response.sections[RECORDS] for data in record)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with start_test_server("in-process") as test_server:
        client = test_server.client()
        dns_server = ClusterDNS(client, host="127.0.0.1", address="10.0.0.10", upstreams=())
        await dns_server.start()
        try:
            yield Cluster(client, dns_server.server)
        finally:
            await dns_server.stop()


async def test_service_with_cluster_ip(cluster: Cluster) -> None:
    await cluster.client.create(service("web", clusterIP="10.0.0.77"))
    name = f"web.default.svc.{ZONE}"
    assert await eventually(lambda: cluster.texts(name)) == ["10.0.0.77"]
    assert await cluster.texts(name.upper(), tcp=True) == ["10.0.0.77"], "names are not case-sensitive"
    assert await cluster.texts(f"_http._tcp.{name}", "SRV") == [f"0 100 80 {name}."]
    assert await cluster.texts(f"_dns._udp.{name}", "SRV") == [f"0 100 53 {name}."]
    assert await cluster.texts(name, "SRV") == [f"0 50 53 {name}.", f"0 50 80 {name}."]
    additional = (await cluster.ask(f"_http._tcp.{name}", "SRV")).additional
    assert [str(data) for record in additional for data in record] == ["10.0.0.77"]
    assert await cluster.texts("77.0.0.10.in-addr.arpa", "PTR") == [f"{name}."]
    for missing in (f"_dns._tcp.{name}", f"x.{name}", f"web.other.svc.{ZONE}", f"none.default.svc.{ZONE}"):
        response = await cluster.ask(missing, "SRV")
        assert response.rcode() == dns.rcode.NXDOMAIN, missing
        assert response.authority[0].rdtype == dns.rdatatype.SOA
    other_type = await cluster.ask(name, "AAAA")
    assert (other_type.rcode(), other_type.sections[RECORDS]) == (dns.rcode.NOERROR, [])
    assert other_type.flags & dns.flags.AA
    await cluster.client.delete("services", "web", namespace="default")

    async def is_missing() -> bool:
        return (await cluster.ask(name)).rcode() == dns.rcode.NXDOMAIN

    await eventually(is_missing)


async def test_headless_service(cluster: Cluster) -> None:
    await cluster.client.create(service("db", clusterIP="None"))
    ready = {"addresses": ["10.244.0.5"], "hostname": "db-0", "conditions": {"ready": True}}
    plain = {"addresses": ["10.244.0.6"], "conditions": {"ready": True}}
    starting = {"addresses": ["10.244.0.7"], "hostname": "db-2", "conditions": {"ready": False}}
    await cluster.client.create(endpoint_slice("db-1", "db", ready, starting))
    await cluster.client.create(endpoint_slice("db-2", "db", plain))
    name = f"db.default.svc.{ZONE}"

    async def both() -> Any:
        return await cluster.texts(name) == ["10.244.0.5", "10.244.0.6"]

    await eventually(both)
    assert await cluster.texts(f"db-0.{name}") == ["10.244.0.5"]
    assert await cluster.texts(f"10-244-0-6.{name}") == ["10.244.0.6"]
    assert (await cluster.ask(f"db-2.{name}")).rcode() == dns.rcode.NXDOMAIN, "not ready"
    assert await cluster.texts(f"_http._tcp.{name}", "SRV") == [
        f"0 50 8080 10-244-0-6.{name}.",
        f"0 50 8080 db-0.{name}.",
    ]
    assert await cluster.texts("5.0.244.10.in-addr.arpa", "PTR") == [f"db-0.{name}."]


async def test_large_responses_use_tcp(cluster: Cluster) -> None:
    await cluster.client.create(service("many", clusterIP="None"))
    addresses = [f"10.244.1.{number}" for number in range(1, 101)]
    endpoints = [{"addresses": [each], "conditions": {"ready": True}} for each in addresses]
    await cluster.client.create(endpoint_slice("many-1", "many", *endpoints))
    name = f"many.default.svc.{ZONE}"

    async def complete() -> Any:
        return len(await cluster.texts(name, tcp=True)) == 100

    await eventually(complete)
    response = await cluster.ask(name)
    assert response.flags & dns.flags.TC
    assert len(response.to_wire()) <= 1232


async def test_names_without_services(cluster: Cluster) -> None:
    assert await cluster.texts(f"dns-version.{ZONE}", "TXT") == ['"1.1.0"']
    assert await cluster.texts(f"10-244-3-4.default.pod.{ZONE}") == ["10.244.3.4"]
    assert (await cluster.ask(f"10-244-3-4.nowhere.pod.{ZONE}")).rcode() == dns.rcode.NXDOMAIN
    assert (await cluster.ask(f"x.default.pod.{ZONE}")).rcode() == dns.rcode.NXDOMAIN
    assert await cluster.texts(f"ns.dns.{ZONE}") == ["10.0.0.10"]
    assert await cluster.texts(ZONE, "NS") == [f"ns.dns.{ZONE}."]
    for empty in ("svc", "default.svc", "default.pod"):
        response = await cluster.ask(f"{empty}.{ZONE}")
        assert (response.rcode(), response.sections[RECORDS]) == (dns.rcode.NOERROR, []), empty
    assert (await cluster.ask("example.com")).rcode() == DENIED, "there is no upstream server"


async def test_aliases_and_upstream(cluster: Cluster) -> None:
    """The upstream server is another cluster DNS, with another domain."""
    await cluster.client.create(service("target", clusterIP="10.0.0.99"))
    other = ClusterDNS(cluster.client, host="127.0.0.1", domain="example.org", upstreams=())
    await other.start()
    try:
        from kubewright.dns.upstream import Upstream

        cluster.server._upstream = Upstream(["127.0.0.1"], port=other.server.port, timeout=60)
        outside = "target.default.svc.example.org"
        assert await eventually(lambda: cluster.texts(outside)) == ["10.0.0.99"]
        for name, alias in (("inside", f"target.default.svc.{ZONE}"), ("outside", outside)):
            await cluster.client.create(service(name, type="ExternalName", externalName=alias, ports=[]))
            found = await eventually(lambda name=name: cluster.texts(f"{name}.default.svc.{ZONE}"))
            assert found == ["10.0.0.99", f"{alias}."]
        for one, two in (("loop-a", "loop-b"), ("loop-b", "loop-a")):
            loop = service(one, type="ExternalName", externalName=f"{two}.default.svc.{ZONE}", ports=[])
            await cluster.client.create(loop)

        async def is_loop() -> Any:
            return len(await cluster.texts(f"loop-a.default.svc.{ZONE}")) == 2

        await eventually(is_loop)
    finally:
        await other.stop()


async def test_malformed_queries_are_rejected(cluster: Cluster) -> None:
    server = cluster.server
    query = dns.message.make_query(f"kubernetes.default.svc.{ZONE}", "A")
    assert await server.respond(b"") is None
    assert await server.respond(query.to_wire()[:8]) is None
    response = dns.message.make_response(query)
    assert await server.respond(response.to_wire()) is None, "no loop between servers"
    malformed = await server.respond(query.to_wire()[:-3])
    assert malformed is not None
    assert dns.message.from_wire(malformed).rcode() == dns.rcode.FORMERR
    query.set_opcode(dns.opcode.UPDATE)
    rejected = await server.respond(query.to_wire())
    assert rejected is not None
    for _ in range(300):
        await server.respond(os.urandom(40))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(struct.pack("!H", 5) + b"short")
    assert await reader.read() == b"", "the connection is closed"
    writer.close()
    assert await cluster.texts(f"kubernetes.default.svc.{ZONE}") == ["10.0.0.1"]


async def test_service_kube_dns() -> None:
    async with start_test_server("in-process") as test_server:
        client = test_server.client()
        arguments = {"cluster_ip": "10.0.0.10", "address": "192.0.2.1"}
        assert await publish_dns_service(client, port=5300, **arguments)
        assert await publish_dns_service(client, port=5301, **arguments), "after a restart on another port"
        found = await client.get("services", "kube-dns", namespace="kube-system")
        assert found.raw["spec"]["clusterIP"] == "10.0.0.10"
        slices = await client.list("endpointslices.discovery.k8s.io", namespace="kube-system")
        assert [[port["port"] for port in each.raw["ports"]] for each in slices] == [[5301, 5301]]
        assert not await publish_dns_service(client, cluster_ip="10.0.0.10", address="127.0.0.1", port=1)
        await client.delete(found)
        mine = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns"}}
        mine |= {"spec": {"selector": {"k8s-app": "coredns"}, "ports": [{"port": 53}]}}
        mine["metadata"]["namespace"] = "kube-system"  # type: ignore[index]
        await client.create(mine)
        assert not await publish_dns_service(client, port=5300, **arguments), "CoreDNS is not replaced"


@given(st.ip_addresses())
def test_addresses_as_labels(address: Any) -> None:
    label = dashed(address.exploded)
    assert "." not in label
    assert undashed(label) == str(address)


def test_system_servers(tmp_path: Any) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text(
        "# a comment\nsearch example.com\nnameserver 192.0.2.1\nnameserver\nnameserver 192.0.2.2 # x\n"
    )
    assert system_servers(file) == ["192.0.2.1", "192.0.2.2"]
    assert system_servers(tmp_path / "missing") == []
