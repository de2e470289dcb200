"""Connections of the API server to pods, for the `proxy` subresources of pods and services.

As kube-apiserver does, a request is sent to the IP address of the pod, with TLS (and no verification) for a
target `https:NAME:PORT`. Addresses that are not global unicast are rejected before this: a pod whose status
names the loopback interface does not give its author access to the machine of the server.
"""

from __future__ import annotations

import ipaddress
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from kubewright.api.errors import ServiceUnavailable
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.controlplane.aggregation.proxy import Proxy
from kubewright.controlplane.aggregation.remote import Remote, Service, forwarded_headers

from .html_links import LinkRewriter

if TYPE_CHECKING:
    from yarl import URL

_SERVICE = Service("", "pod", 0, "", True)


def is_global_unicast(address: str) -> bool:
    """Whether an IP address is one that requests can be forwarded to, by the rule of Go's `net` package."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local:
        return False
    return str(found) != "255.255.255.255"


class PodRemote(Remote):
    """Pool of connections to pods."""

    def __init__(self) -> None:
        super().__init__(_no_service, _no_certificate)
        self._context: ssl.SSLContext | None = None

    def context(self, service: Service) -> ssl.SSLContext:
        """Return a TLS context that accepts any certificate, as pods have none of a known authority."""
        if self._context is None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        return self._context

    def name(self, service: Service) -> str | None:
        """Return no server name: the address is that of the pod."""
        return None


class PodProxy(Proxy):
    """Forwards one request to a port of a pod."""

    def __init__(self, remote: PodRemote, host: str, port: int, path: str, *, tls: bool) -> None:
        super().__init__(remote, _SERVICE)
        self.available = True
        self.tls = tls
        self._address = f"{f'[{host}]' if ':' in host else host}:{port}"
        self._path = path

    async def __call__(self, request: HTTPRequest) -> HTTPResponse:
        """Forward a request and return the response, with redirections to the pod as paths of the proxy."""
        try:
            response = await super().__call__(request)
        except ServiceUnavailable as error:
            _, found, reason = error.message.partition('": ')
            text = f"error trying to reach service: {reason}" if found else error.message
            raise ServiceUnavailable(text) from None
        location = response.headers.get("Location")
        if isinstance(location, str):
            response.headers["Location"] = self._redirection(request, location)
        kind = response.content_type.partition(";")[0].strip().lower()
        if kind == "text/html" and "Content-Encoding" not in response.headers:
            links = LinkRewriter(lambda link: self._redirection(request, link))
            if response.stream is not None:
                response.stream = links.stream(response.stream)
            else:
                page = links.feed(response.body) + links.close()
                response = HTTPResponse(
                    response.status, page, content_type=response.content_type, headers=response.headers
                )
        return response

    def _redirection(self, request: HTTPRequest, location: str) -> str:
        try:
            parts = urlsplit(location)
        except ValueError:
            return location
        host = request.headers.get("Host", "")
        if parts.netloc not in ("", self._address, host) or not parts.path.startswith("/"):
            return location
        prefix = request.path.removesuffix(self._path).rstrip("/")
        path = parts.path if parts.path.startswith(prefix) else prefix + parts.path
        return urlunsplit(("", "", path, parts.query, parts.fragment))

    async def address(self) -> str:
        """Return host and port of the pod."""
        return self._address

    def _target(self, request: HTTPRequest, address: str, scheme: str) -> URL:
        from yarl import URL

        query = f"?{request.query.raw}" if request.query.raw else ""
        return URL(f"{scheme}://{address}{self._path}{query}", encoded=True)

    def _headers(self, request: HTTPRequest) -> list[tuple[str, str]]:
        dropped = ("audit-id", "x-forwarded-uri", "x-forwarded-host")
        headers = [pair for pair in forwarded_headers(request.headers) if pair[0].lower() not in dropped]
        if request.remote:
            headers.append(("X-Forwarded-For", request.remote))
        headers.append(("X-Forwarded-Uri", request.raw_path))
        if host := request.headers.get("Host", ""):
            headers += [("Host", host), ("X-Forwarded-Host", host)]
        return headers


async def _no_service(namespace: str, name: str, port: int) -> tuple[str, int]:
    raise LookupError(name)


def _no_certificate() -> Any:
    raise LookupError("connections to pods have no client certificate")
