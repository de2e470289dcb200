"""Subresources that forward requests to another server, as `pods/proxy` and `services/proxy` do.

Method, path below the subresource, query, headers and body are forwarded, WebSockets and SPDY connections as
well. Credentials of the client and user headers of the aggregator are not.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kubewright.api.errors import BadRequest
from kubewright.client.transport.headers import identity_value
from kubewright.controlplane.aggregation.proxy import Proxy
from kubewright.controlplane.aggregation.remote import ConnectionPool, Service, forwarded_headers

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse

_SERVICE = Service("", "proxy", 0, "", False)


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """Where a proxy subresource forwards to.

    `url` is the base of the path (`http://10.0.0.7:8080/console`). `headers` are added to the request. The
    certificate of an `https` URL is verified with `tls`, by default with the authorities of the system.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None


class ProxyConnections(ConnectionPool):
    """The connections of all proxy subresources of a server; close it when the server stops."""

    def __init__(self) -> None:
        super().__init__()
        self._default: ssl.SSLContext | None = None

    @property
    def default_tls(self) -> ssl.SSLContext:
        """TLS with the authorities of the system."""
        if self._default is None:
            self._default = ssl.create_default_context()
        return self._default

    async def forward(self, request: HTTPRequest, target: ProxyTarget, path: str) -> HTTPResponse:
        """Forward a request to a path of the target; `..` would leave the base path of the target."""
        if ".." in path.split("/"):
            raise BadRequest("the path must not contain '..'")
        return await _TargetProxy(self, target, path)(request)


class _TargetProxy(Proxy):
    """Forwards one request."""

    def __init__(self, connections: ProxyConnections, target: ProxyTarget, path: str) -> None:
        from yarl import URL

        super().__init__(_TargetRemote(connections, target), _SERVICE)
        self.available = True
        self._target_url, self._added, self._path = URL(target.url), target.headers, path
        if self._target_url.scheme not in ("http", "https"):
            raise ValueError(f"proxy target {target.url!r} is not an http or https URL")

    def _target(self, request: HTTPRequest, address: str, scheme: str) -> Any:
        from yarl import URL

        base = self._target_url
        if scheme == "wss":
            used = "wss" if base.scheme == "https" else "ws"
        else:
            used = base.scheme
        path = f"{base.raw_path.rstrip('/')}/{quote(self._path, safe='/%:@!$&()*+,;=~-._')}"
        query = f"?{request.query.raw}" if request.query.raw else ""
        return URL(f"{used}://{address}{path}{query}", encoded=True)

    def _headers(self, request: HTTPRequest) -> list[tuple[str, str]]:
        added = {name.lower() for name in self._added}
        kept = [pair for pair in forwarded_headers(request.headers) if pair[0].lower() not in added]
        return [*kept, *((name, identity_value(name, value)) for name, value in self._added.items())]


class _TargetRemote:
    """The trust of one target, on the connections of the server."""

    def __init__(self, connections: ProxyConnections, target: ProxyTarget) -> None:
        self._connections = connections
        self._tls = target.tls
        self._url = target.url

    async def address(self, service: Service) -> str:
        from yarl import URL

        return URL(self._url).host_port_subcomponent or ""

    async def session(self) -> Any:
        return await self._connections.session()

    def context(self, service: Service) -> Any:
        if not self._url.startswith("https:"):
            return None
        return self._tls if self._tls is not None else self._connections.default_tls

    def name(self, service: Service) -> str | None:
        return None

    async def other_context(self, service: Service, problem: Exception, address: str) -> None:
        return None
