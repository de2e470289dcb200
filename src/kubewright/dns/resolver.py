"""Lookups for names in the cluster domain: Services, headless Services, endpoints, SRV records, pods, PTR.

The records are those of the specification "Kubernetes DNS-Based Service Discovery", version 1.1.0. What it
leaves open is as in CoreDNS: addresses of pods (`10-1-2-3.NAMESPACE.pod`) are not compared with existing
pods, endpoints without a hostname are named after their address, and an SRV query for the name of a Service
returns all its ports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import dns.exception
import dns.name
import dns.rdata
import dns.rdatatype
import dns.reversename
from dns.name import Name
from dns.rdata import Rdata

from kubewright.api.core.v1 import Service

from .records import Endpoint, cluster_addresses, undashed

SCHEMA_VERSION: Final = "1.1.0"
TTL: Final = 5
"""Seconds for which clients may use a record, as in CoreDNS."""
_PROTOCOLS: Final = ("tcp", "udp", "sctp")
_REVERSE: Final = (dns.reversename.ipv4_reverse_domain, dns.reversename.ipv6_reverse_domain)


class Records(Protocol):
    """What the resolver needs to know of a cluster."""

    async def has_namespace(self, name: str) -> bool:
        """Whether a namespace exists."""

    async def service(self, namespace: str, name: str) -> Service | None:
        """Return a Service."""

    async def endpoints(self, namespace: str, name: str) -> list[Endpoint]:
        """Return the ready endpoints of a Service."""

    async def name_of(self, address: str) -> str | None:
        """Return the name of an address, below the cluster domain."""


class Record(NamedTuple):
    """A record and its name."""

    name: Name
    data: Rdata


@dataclass
class Lookup:
    """The records of a name; without any, the name exists with another type, or does not exist."""

    records: list[Record] = field(default_factory=list)
    additional: list[Record] = field(default_factory=list)
    exists: bool = True
    alias: Name | None = None
    """Target of a CNAME record, whose own records are not part of the found yet."""


class Resolver:
    """Resolves names in a cluster domain."""

    def __init__(self, records: Records, *, domain: str = "cluster.local", address: str = "") -> None:
        """`address` is that of the DNS server itself, for the name of its zone."""
        self._records = records
        self._address = address
        self.zone = dns.name.from_text(domain.strip("."))
        """The cluster domain."""

    def soa(self) -> Record:
        """Return the record that says how long a missing name is missing."""
        server, mail = self._below("ns.dns"), self._below("hostmaster")
        return Record(self.zone, _data("SOA", f"{server} {mail} 1 7200 1800 86400 {TTL}"))

    async def resolve(self, name: Name, kind: dns.rdatatype.RdataType) -> Lookup | None:
        """Return the records of a name; `None` if it is not part of the cluster."""
        name = name.canonicalize()
        if name.is_subdomain(self.zone):
            labels = [label.decode("ascii", "replace") for label in name.relativize(self.zone).labels]
            found = await self._resolve(name, [each for each in labels if each], kind)
        elif any(name.is_subdomain(each) for each in _REVERSE):
            return await self._reverse(name, kind)
        else:
            return None
        wanted = (kind, dns.rdatatype.CNAME) if kind != dns.rdatatype.ANY else ()
        if wanted:
            found.records = [each for each in found.records if each.data.rdtype in wanted]
        return found

    def _below(self, text: str) -> Name:
        return dns.name.from_text(text, self.zone)

    async def _resolve(self, name: Name, labels: list[str], kind: dns.rdatatype.RdataType) -> Lookup:
        match labels:
            case []:
                return Lookup([self.soa(), Record(name, _data("NS", str(self._below("ns.dns"))))])
            case ["dns-version"]:
                return Lookup([Record(name, _data("TXT", SCHEMA_VERSION))])
            case ["svc"] | ["pod"] | ["dns"]:
                return Lookup()
            case ["ns", "dns"]:
                return Lookup(_addresses(name, [self._address] if self._address else []))
            case [*_, namespace, "svc" | "pod"] if not await self._records.has_namespace(namespace):
                return _missing()
            case [_, "svc" | "pod"]:
                return Lookup()
            case [label, _, "pod"]:
                address = undashed(label)
                return Lookup(_addresses(name, [address])) if address else _missing()
            case [*rest, service_name, namespace, "svc"]:
                service = await self._records.service(namespace, service_name)
                if service is not None:
                    return await self._service(name, rest, service, kind)
        return _missing()

    async def _service(
        self, name: Name, rest: list[str], service: Service, kind: dns.rdatatype.RdataType
    ) -> Lookup:
        assert service.spec is not None
        if service.spec.type == "ExternalName":
            return self._external(name, rest, service.spec.external_name or "", kind)
        own = self._below(f"{service.name}.{service.namespace}.svc")
        addresses = cluster_addresses(service)
        match rest:
            case []:
                if kind == dns.rdatatype.SRV:
                    return await self._ports(name, own, service, "", "")
                if not addresses:
                    addresses = [each.address for each in await self._endpoints(service)]
                return Lookup(_addresses(name, addresses))
            case [port, protocol] if protocol[1:] in _PROTOCOLS and port[:1] == protocol[:1] == "_":
                return await self._ports(name, own, service, port[1:], protocol[1:])
            case [protocol] if protocol[:1] == "_" and protocol[1:] in _PROTOCOLS:
                return Lookup()
            case [host]:
                endpoints = [each for each in await self._endpoints(service) if each.host == host]
                return (
                    Lookup(_addresses(name, [each.address for each in endpoints]))
                    if endpoints
                    else _missing()
                )
        return _missing()

    async def _endpoints(self, service: Service) -> list[Endpoint]:
        return await self._records.endpoints(service.namespace or "", service.name or "")

    async def _ports(self, name: Name, own: Name, service: Service, port: str, protocol: str) -> Lookup:
        """Return SRV records of one port, or of all without a name: for each endpoint if it is headless."""
        targets: list[tuple[int, Name, str]] = []
        addresses = cluster_addresses(service)
        if addresses:
            assert service.spec is not None
            for each in service.spec.ports or ():
                if not port or ((each.name or "").lower(), (each.protocol or "TCP").lower()) == (
                    port,
                    protocol,
                ):
                    targets += [(each.port or 0, own, address) for address in addresses]
        else:
            for endpoint in await self._endpoints(service):
                host = dns.name.from_text(endpoint.host, own)
                targets += [
                    (each.number, host, endpoint.address)
                    for each in endpoint.ports
                    if not port or (each.name.lower(), each.protocol) == (port, protocol)
                ]
        if not targets:
            return _missing() if port else Lookup()
        hosts = list(dict.fromkeys((number, host) for number, host, _ in targets))
        weight = max(1, 100 // len(hosts))
        found = Lookup()
        for number, host in hosts:
            found.records.append(Record(name, _data("SRV", f"0 {weight} {number} {host}")))
        for host, address in dict.fromkeys((host, address) for _, host, address in targets):
            found.additional += _addresses(host, [address])
        return found

    def _external(self, name: Name, rest: list[str], target: str, kind: dns.rdatatype.RdataType) -> Lookup:
        if rest or not target:
            return _missing()
        alias = dns.name.from_text(target)
        record = Record(name, _data("CNAME", str(alias)))
        return Lookup([record], alias=alias if kind != dns.rdatatype.CNAME else None)

    async def _reverse(self, name: Name, kind: dns.rdatatype.RdataType) -> Lookup | None:
        try:
            found = await self._records.name_of(dns.reversename.to_address(name))
        except (dns.exception.DNSException, ValueError):
            return None
        if found is None:
            return None  # perhaps known outside of the cluster
        record = Record(name, _data("PTR", str(self._below(found))))
        return Lookup([record] if kind in (dns.rdatatype.PTR, dns.rdatatype.ANY) else [])


def _missing() -> Lookup:
    return Lookup(exists=False)


def _addresses(name: Name, addresses: list[str]) -> list[Record]:
    return [Record(name, _data("AAAA" if ":" in each else "A", each)) for each in addresses]


def _data(kind: str, text: str) -> Rdata:
    return dns.rdata.from_text("IN", kind, text)
