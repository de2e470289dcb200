"""A server in the place of a real kubelet, and objects of a cluster that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.controlplane.path_client import PathClient

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.tls.certificates import CertificateAuthority, server_context

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve_kubelet(handler: Handler) -> AsyncIterator[int]:
    """Serve the kubelet API over TLS on a port of the loopback interface."""
    pair = CertificateAuthority.create("kubelet").issue("system:node:n", hosts=("127.0.0.1",), server=True)
    server = web.Server(handler)
    listener = await asyncio.get_running_loop().create_server(
        server, "127.0.0.1", 0, ssl=server_context(pair, request_certificates=True)
    )
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await server.shutdown(0.1)


async def create_node_and_pod(plane: ControlPlane, port: int, *, pod_ip: str = "10.244.7.5") -> None:
    """Create the node `n` of a kubelet on a port, and a running pod `p` on it."""
    await plane.wait_until_idle()
    client = PathClient(plane.server, SYSTEM, user_agent="test")
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    await client.create("/api/v1/nodes", node)
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": "n"}]
    endpoints = {"kubeletEndpoint": {"Port": port}}
    status: Object = {"addresses": addresses, "daemonEndpoints": endpoints}
    await client.merge("/api/v1/nodes/n/status", {"status": status})
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await client.create(PODS, pod)
    status = {"phase": "Running", "podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    await client.merge(f"{PODS}/p/status", {"status": status})
