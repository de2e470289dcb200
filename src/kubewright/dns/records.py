"""The Services, endpoints and namespaces of a cluster, from a cache that watches keep current."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple, Self

from kubewright.api.core.v1 import Namespace, Service
from kubewright.api.discovery.v1 import EndpointSlice
from kubewright.cache import Cache, KindOptions
from kubewright.cache.stores.indexes import by_function, by_label
from kubewright.cache.stores.store import ObjectKey
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind

SERVICE_NAME = "kubernetes.io/service-name"
NONE = "None"
"""Cluster IP of headless Services."""


class Port(NamedTuple):
    """A port of a Service or of its endpoints."""

    name: str
    protocol: str
    number: int


class Endpoint(NamedTuple):
    """An address that serves a Service."""

    host: str
    """The first label of its name: the hostname of the pod, or its address with dashes."""
    address: str
    ports: tuple[Port, ...]


class ClusterRecords:
    """What the resolver needs to know of a cluster; use it with `async with`."""

    def __init__(self, client: Client) -> None:
        kinds: dict[AnyKind, KindOptions] = {
            Service: KindOptions(indexes=(by_function("address", Service, cluster_addresses),)),
            EndpointSlice: KindOptions(
                indexes=(by_label(SERVICE_NAME), by_function("address", EndpointSlice, _named_addresses))
            ),
            Namespace: KindOptions(metadata_only=True),
        }
        self._cache = Cache(client, kinds=kinds)

    async def __aenter__(self) -> Self:
        await self._cache.__aenter__()
        for kind in (Service, EndpointSlice, Namespace):
            await self._cache.synced_informer(kind)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._cache.__aexit__(None, None, None)

    async def has_namespace(self, name: str) -> bool:
        """Whether a namespace exists."""
        informer = await self._cache.synced_informer(Namespace)
        return informer.store.get(ObjectKey("", name)) is not None

    async def service(self, namespace: str, name: str) -> Service | None:
        """Return a Service."""
        return await self._cache.get_or_none(Service, name, namespace=namespace)

    async def endpoints(self, namespace: str, name: str) -> list[Endpoint]:
        """Return the ready endpoints of a Service, each address once."""
        slices = await self._cache.list(EndpointSlice, namespace=namespace, labels={SERVICE_NAME: name})
        found: dict[tuple[str, str], set[Port]] = {}
        for each in slices:
            ports = {
                Port(port.name or "", (port.protocol or "TCP").lower(), port.port)
                for port in each.ports or ()
                if port.port is not None
            }
            for endpoint in each.endpoints or ():
                if endpoint.conditions is not None and endpoint.conditions.ready is False:
                    continue
                for address in endpoint.addresses or ():
                    found.setdefault((endpoint.hostname or dashed(address), address), set()).update(ports)
        return [Endpoint(host, address, tuple(sorted(ports))) for (host, address), ports in found.items()]

    async def name_of(self, address: str) -> str | None:
        """Return the name of a Service or endpoint with an address, below the cluster domain."""
        for service in await self._cache.list(Service, namespace="*", fields={"address": address}):
            return f"{service.name}.{service.namespace}.svc"
        for each in await self._cache.list(EndpointSlice, namespace="*", fields={"address": address}):
            name = (each.metadata.labels or {}).get(SERVICE_NAME)
            service_object = await self.service(each.namespace or "", name) if name else None
            if service_object is None or cluster_addresses(service_object):
                continue
            for endpoint in each.endpoints or ():
                if address in (endpoint.addresses or ()):
                    return f"{endpoint.hostname or dashed(address)}.{name}.{each.namespace}.svc"
        return None


def cluster_addresses(service: Service) -> list[str]:
    """Return the cluster IPs of a Service; none if it is headless or an external name."""
    spec = service.spec
    if spec is None or spec.type == "ExternalName":
        return []
    given = spec.cluster_ips or ([spec.cluster_ip] if spec.cluster_ip else [])
    return [each for each in given if each and each != NONE]


def _named_addresses(each: EndpointSlice) -> Iterable[str]:
    return [address for endpoint in each.endpoints or () for address in endpoint.addresses or ()]


def dashed(address: str) -> str:
    """Return an address as a label: 10.0.0.1 is 10-0-0-1."""
    return address.replace(".", "-").replace(":", "-")


def undashed(label: str) -> str | None:
    """Return the address of a label; `None` for other labels."""
    for text in (label.replace("-", "."), label.replace("-", ":")):
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            continue
    return None
