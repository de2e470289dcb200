"""Ports of this machine for a fake application, and its Service in a cluster.

Each replica listens on a free port. The Service has no selector; its endpoints are those ports, if the
address is not a loopback address, which endpoints must not have. Processes of `kubewright up --run-processes`
find the address in the variables of the Service (`DB_SERVICE_HOST`, `DB_SERVICE_PORT`): the annotation
`ADDRESS_ANNOTATION` is what they get instead of the cluster IP, which is not reachable on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, APIError
from kubewright.api.unstructured import Unstructured
from kubewright.workloads.nodes.processes.environment import ADDRESS_ANNOTATION

from .application import FakeApplication, FakeReplica

if TYPE_CHECKING:
    from kubewright.client import Client

FIELD_MANAGER = "kubewright-fake"


@contextlib.asynccontextmanager
async def serve(application: FakeApplication, client: Client | None, *, host: str) -> AsyncIterator[None]:
    """Listen, and publish the Service while the block runs."""
    servers: list[asyncio.Server] = []
    loop = asyncio.get_running_loop()
    try:
        for replica in application.replicas:
            server = await loop.create_server(partial(_accept, application, replica), host, 0)
            replica.address = server.sockets[0].getsockname()[:2]
            servers.append(server)
        service = await loop.create_server(partial(_accept, application, None), host, 0)
        application.address = service.sockets[0].getsockname()[:2]
        servers.append(service)
        objects = _objects(application)
        if client is not None:
            await _check_service(application, client)
            for each in objects:
                await client.apply(Unstructured(each), field_manager=FIELD_MANAGER, force=True)
        try:
            yield
        finally:
            for each in reversed(objects):
                with contextlib.suppress(APIError):
                    if client is not None:
                        await client.delete(Unstructured(each), missing_ok=True)
    finally:
        for replica in application.replicas:
            replica.disconnect()
            replica.address = None
        application.address = None
        for server in servers:
            server.close()


async def _check_service(application: FakeApplication, client: Client) -> None:
    """Raise `AlreadyExists` if the Service is that of another application: it would be deleted at the end."""
    where = f"{application.namespace}/{application.service}"
    found = await client.get_or_none("services", application.service, namespace=application.namespace)
    if found is not None and ADDRESS_ANNOTATION not in (found.metadata.annotations or {}):
        raise AlreadyExists(f"service {where} exists and is not that of a fake; choose another name")


def _accept(application: FakeApplication, replica: FakeReplica | None) -> asyncio.BaseProtocol:
    """Return the protocol of a connection, or one that closes it if no replica accepts it."""
    try:
        chosen = application.choose(application.replicas if replica is None else [replica])
    except ConnectionError:
        return _Closed()
    return application.protocol(chosen)


class _Closed(asyncio.Protocol):
    """Closes a connection immediately, as far as a listening port can reject it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Abort the connection."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.abort()


def _objects(application: FakeApplication) -> list[dict[str, Any]]:
    """Return the Service and its endpoints."""
    assert application.address is not None
    host, port = application.address
    names = {"name": application.service, "namespace": application.namespace}
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**names, "annotations": {ADDRESS_ANNOTATION: shown}},
        "spec": {"ports": [{"name": "app", "port": application.port, "targetPort": port}]},
    }
    address = ipaddress.ip_address(host)
    if address.is_loopback:
        return [service]
    labels = {"kubernetes.io/service-name": application.service}
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**names, "name": f"{application.service}-fake", "labels": labels},
        "addressType": "IPv4" if address.version == 4 else "IPv6",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "app", "port": port, "protocol": "TCP"}],
    }
    return [service, slice_]
