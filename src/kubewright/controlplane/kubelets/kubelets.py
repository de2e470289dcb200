"""Connections of the API server to kubelets: logs, exec, attach, port-forward and the node proxy.

The address of a kubelet is in its Node object: the port in `status.daemonEndpoints`, the host in
`status.addresses`, in the order of `ADDRESS_TYPES`. As in kube-apiserver without
`--kubelet-certificate-authority`, the serving certificate of a kubelet is not verified; the API server
identifies itself with a client certificate of the control plane's authority.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode
from weakref import ReferenceType, WeakKeyDictionary, ref

from kubewright.api.errors import APIError, BadRequest, NotFound, ServiceUnavailable, not_found
from kubewright.api.gvk import GroupResource
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.subresource import SubresourceRequest
from kubewright.controlplane.aggregation.proxy import Proxy
from kubewright.controlplane.aggregation.remote import Remote, Service, forwarded_headers, read_bounded

from .pod_connections import PodProxy, PodRemote

if TYPE_CHECKING:
    import aiohttp

    from kubewright.apiserver.server import APIServer
    from kubewright.tls.certificates import KeyPair

    from .kubelet_usage import KubeletUsage, NodeUsage

ADDRESS_TYPES: Final = ("InternalDNS", "InternalIP", "Hostname", "ExternalDNS", "ExternalIP")
"""Types of node addresses, preferred first. Simulated nodes have `InternalDNS` addresses."""
LOCAL_SUFFIX: Final = ".localhost"
"""Names with this suffix are loopback addresses (RFC 6761), whether or not the resolver knows them."""
READ_TIMEOUT: Final = 10.0
USER: Final = "kube-apiserver-kubelet-client"

_SERVICE: Final = Service("", "kubelet", 0, "", True)
_clients: WeakKeyDictionary[APIServer, ReferenceType[KubeletClient]] = WeakKeyDictionary()
"""Weak values too: the certificate function of a client refers to the server."""


class KubeletAddress(NamedTuple):
    """Where the kubelet of a node listens."""

    host: str
    port: int

    @property
    def url_host(self) -> str:
        """The host in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_simulated(self) -> bool:
        """Whether this is a simulated kubelet: only it knows the addresses and the usage of its pods."""
        return self.host.endswith(LOCAL_SUFFIX)


class KubeletClient:
    """Forwards requests to kubelets."""

    def __init__(
        self, certificate: Callable[[], KeyPair], address_types: Sequence[str] = ADDRESS_TYPES
    ) -> None:
        self._remote = _KubeletRemote(certificate)
        self._pods = PodRemote()
        self._usage: KubeletUsage | None = None
        self.address_types = address_types
        """Types of node addresses, preferred first."""

    async def stop(self) -> None:
        """Close all connections."""
        if self._usage is not None:
            await self._usage.stop()
        await self._remote.close()
        await self._pods.close()

    def usage(self, server: APIServer) -> KubeletUsage:
        """Return the usage that kubelets report."""
        if self._usage is None:
            from .kubelet_usage import KubeletUsage

            self._usage = KubeletUsage(lambda node: self._read_usage(server, node))
        return self._usage

    async def _read_usage(self, server: APIServer, node: str) -> bytes:
        found = await read_node(server, node)
        address = kubelet_address(found, self.address_types) if found is not None else None
        if address is None:
            raise OSError("its Node object has no kubelet endpoint")
        url = f"https://{address.url_host}:{address.port}/metrics/resource"
        return await self._remote.read(url)

    async def forward_to_pod(
        self, request: HTTPRequest, host: str, port: int, path: str, *, tls: bool
    ) -> HTTPResponse:
        """Forward a request to an address of a pod."""
        return await PodProxy(self._pods, host, port, path, tls=tls)(request)

    async def forward(
        self,
        request: HTTPRequest,
        address: KubeletAddress,
        path: str,
        query: list[tuple[str, str]],
        *,
        upgrade: bool = True,
    ) -> HTTPResponse:
        """Forward a request to a path of a kubelet; with `upgrade`, also a WebSocket or SPDY connection."""
        proxy = _KubeletProxy(self._remote, address, path, urlencode(query))
        proxy.available = True
        try:
            return await proxy(request) if upgrade else await proxy.forward(request)
        except ServiceUnavailable as error:
            text = error.message.removeprefix("error trying to reach service: ")
            raise APIError(f"error dialing backend: {text}", code=500) from None


class _KubeletRemote(Remote):
    def __init__(self, certificate: Callable[[], KeyPair]) -> None:
        super().__init__(_no_service, certificate)

    def _connector(self) -> aiohttp.TCPConnector:
        import aiohttp

        return aiohttp.TCPConnector(limit=0, keepalive_timeout=15, resolver=_resolver())

    def name(self, service: Service) -> str | None:
        return None

    async def read(self, url: str) -> bytes:
        """Return the body of a short response; raises `OSError`."""
        import asyncio

        import aiohttp

        try:
            async with (
                asyncio.timeout(READ_TIMEOUT),
                (await self.session()).get(url, ssl=self.context(_SERVICE)) as response,
            ):
                if response.status != 200:
                    raise OSError(f"the kubelet returned status {response.status}")
                return await read_bounded(response)
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from None


async def _no_service(namespace: str, name: str, port: int) -> tuple[str, int]:
    raise LookupError(name)


class _KubeletProxy(Proxy):
    """Forwards one request to a path of a kubelet."""

    def __init__(self, remote: Remote, address: KubeletAddress, path: str, query: str) -> None:
        super().__init__(remote, _SERVICE)
        self._address, self._path, self._query = address, path, query

    async def forward(self, request: HTTPRequest) -> HTTPResponse:
        """Forward a request without an upgrade of the connection."""
        return await self._forward(request, await self.address())

    async def address(self) -> str:
        return f"{self._address.url_host}:{self._address.port}"

    def _target(self, request: HTTPRequest, address: str, scheme: str) -> Any:
        from yarl import URL

        query = f"?{self._query}" if self._query else ""
        return URL(f"{scheme}://{address}{self._path}{query}", encoded=True)

    def _headers(self, request: HTTPRequest) -> list[tuple[str, str]]:
        return [pair for pair in forwarded_headers(request.headers) if pair[0].lower() != "audit-id"]

    def _ends_with(self, message: bytes | str, protocol: str) -> bool:
        """Kubelets end the connection after the status of a command, without a close frame; protocols
        without a status, and port-forwards, have no last message."""
        if not self._path.startswith(("/exec/", "/attach/")) or not protocol.startswith(("v4.", "v5.")):
            return True
        return message[:1] in (b"\x03", "3")

    def connect_host(self, host: str) -> str:
        return "127.0.0.1" if host.endswith(LOCAL_SUFFIX) else host


def _resolver() -> Any:
    from aiohttp.resolver import ThreadedResolver

    class LocalNames(ThreadedResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> Any:
            return await super().resolve("127.0.0.1" if host.endswith(LOCAL_SUFFIX) else host, port, family)

    return LocalNames()


def connect_kubelets(
    server: APIServer, certificate: Callable[[], KeyPair], address_types: Sequence[str] = ADDRESS_TYPES
) -> KubeletClient:
    """Let a server forward requests to kubelets, as long as the caller keeps the returned client.

    `certificate` returns the client certificate of the server.
    """
    client = KubeletClient(certificate, address_types)
    _clients[server] = ref(client)
    return client


async def forward_to_node(
    request: SubresourceRequest,
    node: str,
    path: str,
    query: list[tuple[str, str]],
    *,
    upgrade: bool = True,
) -> HTTPResponse:
    """Forward a request to the kubelet of a node; raise the error of kube-apiserver if it does not exist."""
    server = request.store.server
    connected = _clients.get(server)
    if server.store("", "nodes") is None:
        raise no_kubelet(node)
    found = await read_node(server, node)
    if found is None:
        raise not_found(GroupResource("", "pods"), node)
    client = connected() if connected is not None else None
    address = kubelet_address(found, client.address_types) if client is not None else None
    if client is None or address is None:
        raise no_kubelet(node)
    return await client.forward(request.request, address, path, query, upgrade=upgrade)


async def forward_to_pod(
    request: SubresourceRequest, pod: Object, port: str, *, host: str, tls: bool
) -> HTTPResponse:
    """Forward a request to a port of a pod: to its address, or to the simulated kubelet of its node."""
    from urllib.parse import parse_qsl

    given = request.request
    path = quote(request.path.lstrip("/"), safe="/%:@!$&'()*+,;=~-._")
    path = f"/{path}" if path or given.path.endswith("/") else ""
    if given.path.endswith("/") and not path.endswith("/"):
        path += "/"
    if not path and given.method in ("GET", "HEAD") and "Upgrade" not in given.headers:
        query = f"?{given.query.raw}" if given.query.raw else ""
        return HTTPResponse(301, headers={"Location": f"{given.raw_path}/{query}"})
    metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName") or ""
    if await _is_simulated(request, node):
        base = pod_path("podProxy", metadata["namespace"], metadata["name"], port)
        query_pairs = parse_qsl(given.query.raw, keep_blank_values=True)
        return await forward_to_node(request, node, f"{base}{path}", query_pairs)
    connected = _clients.get(request.store.server)
    client = connected() if connected is not None else None
    if client is None:
        raise no_kubelet(node)
    return await client.forward_to_pod(given, host, int(port), path, tls=tls)


async def _is_simulated(request: SubresourceRequest, node: str) -> bool:
    """Whether the addresses of the pods of a node exist only in its kubelet."""
    found = await read_node(request.store.server, node) if node else None
    address = kubelet_address(found) if found is not None else None
    return address is not None and address.is_simulated


async def read_node(server: APIServer, name: str) -> Object | None:
    """Return a Node object, or `None`."""
    nodes = server.store("", "nodes")
    if nodes is None:
        return None
    version = nodes.resource.version(nodes.resource.storage_version)
    assert version is not None
    try:
        return await nodes.get_object(version, "", name)
    except NotFound:
        return None


async def read_usage(server: APIServer, node: Object) -> NodeUsage | None:
    """Return the usage that the kubelet of a node reports; `None` if it is not available (yet)."""
    connected = _clients.get(server)
    client = connected() if connected is not None else None
    return await client.usage(server).usage(node["metadata"]["name"]) if client is not None else None


def kubelet_address(node: Object, address_types: Sequence[str] = ADDRESS_TYPES) -> KubeletAddress | None:
    """Return the address of the kubelet of a Node object, if it has one."""
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    hosts: dict[str, str] = {}
    for one in status.get("addresses") or ():
        hosts.setdefault(one.get("type") or "", one.get("address") or "")
    host = next((hosts[kind] for kind in address_types if hosts.get(kind)), "")
    return KubeletAddress(host, int(port)) if port and host else None


def no_kubelet(node: str) -> ServiceUnavailable:
    """Return the error of requests that only a kubelet can serve."""
    return ServiceUnavailable(
        f'error dialing backend: no kubelet serves node "{node}": its Node object has no kubelet endpoint'
    )


def pod_path(kind: str, namespace: str, pod: str, container: str = "") -> str:
    """Return a path of the kubelet API."""
    parts = [kind, namespace, pod, *([container] if container else [])]
    return "/" + "/".join(quote(part, safe="") for part in parts)


async def check_log_response(response: HTTPResponse) -> HTTPResponse:
    """Raise the error that kube-apiserver returns for an error response of a kubelet."""
    if response.status < 400:
        return response
    body = response.body
    if response.stream is not None:
        body = b"".join([chunk async for chunk in response.stream])
    text = body[:2000].decode(errors="replace")
    if response.status == 400:
        raise BadRequest(text)
    if response.status == 404:
        raise NotFound(f"the server could not find the requested resource ( pods/log {text})")
    raise APIError(text, code=500)
