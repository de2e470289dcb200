"""Cloud controller manager for Acme, an imaginary cloud with an HTTP API (`acme_cloud.py`).

python cloud_provider.py --kubeconfig kubeconfig --api http://127.0.0.1:8090
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from kubewright.api.core.v1 import LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress, Service
from kubewright.client import Client
from kubewright.manager.observability import logs
from kubewright.workloads.cloud import (
    CloudControllerManager,
    CloudProvider,
    InstanceMetadata,
    InstanceNotFound,
    RetryAfter,
    Route,
    default_load_balancer_name,
    health_check_port,
    source_ranges,
)

NAME = "acme"
PROVISIONING_DELAY = 5.0


class AcmeAPI:
    """Client of the API. Requests run in threads, because `urllib` is synchronous."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token

    async def get(self, *path: str) -> Any:
        """Return a resource or a list; `None` if it does not exist."""
        return await self._call("GET", path)

    async def put(self, *path: str, body: dict[str, Any]) -> Any:
        """Create or replace a resource."""
        return await self._call("PUT", path, body)

    async def delete(self, *path: str) -> None:
        """Delete a resource, if it exists."""
        await self._call("DELETE", path)

    async def _call(self, method: str, path: Sequence[str], body: Any = None) -> Any:
        url = "/".join((self._url, "v1", *(quote(part, safe="") for part in path)))
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        return await asyncio.to_thread(_send, Request(url, data, headers, method=method))


def _send(request: Request) -> Any:
    try:
        with urlopen(request, timeout=30) as response:
            content = response.read()
    except HTTPError as error:
        if error.code == 404:
            return None
        message = json.loads(error.read() or b"{}").get("error", error.reason)
        raise ConnectionError(f"{request.method} {request.full_url}: {error.code} {message}") from None
    return json.loads(content) if content else None


class AcmeInstances:
    """Servers, found by the provider ID `acme://<id>` or by name."""

    def __init__(self, api: AcmeAPI) -> None:
        self._api = api

    async def _server(self, node: Node) -> dict[str, Any] | None:
        provider_id = (node.spec.provider_id if node.spec is not None else None) or ""
        if provider_id.startswith(f"{NAME}://"):
            found: dict[str, Any] | None = await self._api.get("servers", server_id(node))
            return found
        return next((one for one in await self._api.get("servers") if one["name"] == node.name), None)

    async def exists(self, node: Node) -> bool:
        """Whether the server exists."""
        return await self._server(node) is not None

    async def is_shut_down(self, node: Node) -> bool:
        """Whether the server is stopped."""
        server = await self._server(node)
        return server is not None and server["state"] == "stopped"

    async def metadata(self, node: Node) -> InstanceMetadata:
        """Return type, location and addresses of a server."""
        server = await self._server(node)
        if server is None:
            raise InstanceNotFound(f"no server with the name {node.name}")
        return InstanceMetadata(
            provider_id=f"{NAME}://{server['id']}",
            instance_type=server["type"],
            zone=server["zone"],
            region=server["region"],
            addresses=[
                NodeAddress(type="InternalIP", address=server["private_ip"]),
                NodeAddress(type="ExternalIP", address=server["public_ip"]),
            ],
        )


def server_id(node: Node) -> str:
    """Return the ID of the server of an initialized node."""
    provider_id = (node.spec.provider_id if node.spec is not None else None) or ""
    return provider_id.removeprefix(f"{NAME}://")


class AcmeLoadBalancers:
    """Load balancers in front of the node ports of services."""

    def __init__(self, api: AcmeAPI) -> None:
        self._api = api

    def name(self, cluster: str, service: Service) -> str:
        """Return the ID of the load balancer."""
        return default_load_balancer_name(service)

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Return the status of an existing load balancer."""
        found = await self._api.get("load-balancers", self.name(cluster, service))
        return _status(found) if found is not None else None

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or update a load balancer; it is ready some seconds later."""
        assert service.spec is not None
        body = {
            "cluster": cluster,
            "ports": [{"port": port.port, "target": port.node_port} for port in service.spec.ports or ()],
            "servers": [server_id(node) for node in nodes],
            "sources": source_ranges(service),
            "health_check_port": health_check_port(service),
        }
        balancer = await self._api.put("load-balancers", self.name(cluster, service), body=body)
        if balancer["state"] == "provisioning":
            raise RetryAfter(f"load balancer {balancer['id']} is provisioning", delay=PROVISIONING_DELAY)
        return _status(balancer)

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Replace the servers of a load balancer."""
        await self.ensure(cluster, service, nodes)

    async def ensure_deleted(self, cluster: str, service: Service) -> None:
        """Delete a load balancer."""
        await self._api.delete("load-balancers", self.name(cluster, service))


def _status(balancer: dict[str, Any]) -> LoadBalancerStatus:
    return LoadBalancerStatus(ingress=[LoadBalancerIngress(ip=balancer["address"])])


class AcmeRoutes:
    """Routes of the private network."""

    def __init__(self, api: AcmeAPI) -> None:
        self._api = api

    async def list(self, cluster: str) -> Sequence[Route]:
        """Return the routes of the cluster."""
        return [
            Route(name=one["id"], destination_cidr=one["destination"], target_node=one["node"])
            for one in await self._api.get("routes")
            if one["cluster"] == cluster
        ]

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        """Create a route."""
        body = {"cluster": cluster, "destination": route.destination_cidr, "node": route.target_node}
        await self._api.put("routes", f"{cluster}-{route.destination_cidr}", body=body)

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route."""
        await self._api.delete("routes", route.name)


def acme(url: str, token: str) -> CloudProvider:
    """Return the provider for Acme."""
    api = AcmeAPI(url, token)
    return CloudProvider(
        NAME, instances=AcmeInstances(api), load_balancers=AcmeLoadBalancers(api), routes=AcmeRoutes(api)
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kubeconfig", default=None)
    parser.add_argument("--api", default="http://127.0.0.1:8090")
    parser.add_argument("--cluster-cidr", default="10.244.0.0/16")
    arguments = parser.parse_args()
    logs.setup()
    provider = acme(arguments.api, os.environ.get("ACME_TOKEN", "secret"))
    async with Client.connect(kubeconfig=arguments.kubeconfig) as client:
        await CloudControllerManager(provider, client, cluster_cidrs=[arguments.cluster_cidr]).run()


if __name__ == "__main__":
    asyncio.run(main())
