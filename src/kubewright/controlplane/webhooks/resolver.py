"""Resolution of service references to addresses.

In this order: explicit overrides, the ready endpoints of the service (EndpointSlices, then Endpoints), its
cluster IP (useful with a cluster network). Simulated pods have no reachable address, so their services need
an override.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from .client import ServiceNotResolved

if TYPE_CHECKING:
    from kubewright.apiserver import APIServer

Address = tuple[str, int]


class ServiceResolver:
    """Resolves services through the objects of a server; the `resolve` argument of a `WebhookClient`.

    `overrides` maps `name.namespace` or `name.namespace:port` to `https://host:port`; it may be changed at
    any time.
    """

    def __init__(
        self,
        server: APIServer,
        overrides: Mapping[str, str] | None = None,
        *,
        rng: random.Random | None = None,
    ) -> None:
        self._server = server
        self.overrides = dict(overrides or {})
        self._rng = rng or random.Random()  # noqa: S311 - spreads load

    async def __call__(self, namespace: str, name: str, port: int) -> Address:
        """Return an address for a port of a service; raise `ServiceNotResolved`."""
        given = _override(self.overrides, namespace, name, port)
        if given is not None:
            return given
        service = await self._read("", "services", namespace, name)
        if service is None:
            raise ServiceNotResolved(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName" and spec.get("externalName"):
            return spec["externalName"], port
        declared = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if declared is None:
            raise ServiceNotResolved(f'no service port {port} found for service "{name}"')
        candidates = await self._slices(namespace, name, declared) or await self._endpoints(
            namespace, name, declared
        )
        if candidates:
            return self._rng.choice(candidates)
        address = spec.get("clusterIP")
        if address == "None":
            raise ServiceNotResolved('cannot route to service with ClusterIP "None"')
        if address:
            return address, port
        raise ServiceNotResolved(
            f'no endpoints available for service "{name}"; create an EndpointSlice for it in namespace '
            f"{namespace}, or set its address with --webhook-resolve"
        )

    async def _read(self, group: str, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        store = self._server.store(group, plural)
        item = await store.storage.get(store.key(namespace, name)) if store is not None else None
        return msgspec.json.decode(item.value) if item is not None else None

    async def _slices(self, namespace: str, name: str, port: dict[str, Any]) -> list[Address]:
        store = self._server.store("discovery.k8s.io", "endpointslices")
        if store is None:
            return []
        found: list[Address] = []
        for item in (await store.storage.list(store.range(namespace))).items:
            part = msgspec.json.decode(item.value)
            labels = part["metadata"].get("labels") or {}
            if labels.get("kubernetes.io/service-name") != name:
                continue
            number = _number(part.get("ports"), port)
            for endpoint in part.get("endpoints") or () if number else ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    found += [(address, number) for address in endpoint.get("addresses") or ()]
        return found

    async def _endpoints(self, namespace: str, name: str, port: dict[str, Any]) -> list[Address]:
        endpoints = await self._read("", "endpoints", namespace, name) or {}
        found: list[Address] = []
        for subset in endpoints.get("subsets") or ():
            number = _number(subset.get("ports"), port)
            if number:
                found += [(each["ip"], number) for each in subset.get("addresses") or ()]
        return found


class DNSResolver:
    """Resolves services to their DNS names, for servers whose host uses the DNS of the cluster.

    `overrides` are those of `ServiceResolver`.
    """

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self.overrides = dict(overrides or {})

    async def __call__(self, namespace: str, name: str, port: int) -> Address:
        """Return the DNS name of a service, or its override."""
        return _override(self.overrides, namespace, name, port) or (f"{name}.{namespace}.svc", port)


def _override(overrides: Mapping[str, str], namespace: str, name: str, port: int) -> Address | None:
    given = overrides.get(f"{name}.{namespace}:{port}") or overrides.get(f"{name}.{namespace}")
    return _address(given, f"{name}.{namespace}") if given else None


def _address(given: str, service: str) -> Address:
    try:
        parts = urlsplit(given if "//" in given else f"//{given}")
        host, port = parts.hostname, parts.port or 443
    except ValueError:
        host = None
    if not host:
        raise ServiceNotResolved(
            f'"{given}", given as the address of service {service}, is not https://host:port'
        )
    return host, port


def _number(ports: list[dict[str, Any]] | None, wanted: dict[str, Any]) -> int:
    """Return the endpoint port with the name of a service port."""
    for port in ports or ():
        if (port.get("name") or "") == (wanted.get("name") or ""):
            return port.get("port") or 0
    return 0
