"""Forwarding of requests to the server of an APIService."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kubewright.api.errors import ServiceUnavailable
from kubewright.apiserver.authentication.tokens import websocket_protocols
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, WebSocket
from kubewright.client.errors import ConnectionFailed
from kubewright.client.transport.headers import InvalidHeader, escape_value, is_token
from kubewright.controlplane.webhooks.client import ServiceNotResolved

from .remote import Service, Upstream, connect, explain, forwarded_headers, identity_headers

if TYPE_CHECKING:
    import ssl

    import aiohttp

BODY_LIMIT = 100 * 1024 * 1024
SPDY = "spdy/3.1"
"""The only protocol that is tunnelled: with h2c a client could smuggle requests with another identity."""
MESSAGE_LIMIT = 16 * 1024 * 1024
_DROPPED = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date")
)


def unavailable() -> HTTPResponse:
    """Return the error for an APIService whose server is unavailable."""
    return HTTPResponse(503, b"service unavailable\n", content_type="text/plain; charset=utf-8")


class Proxy:
    """Forwards requests to one extension API server."""

    tls = True
    """Whether connections use TLS."""

    def __init__(self, remote: Upstream, service: Service) -> None:
        self.remote = remote
        self.service = service
        self.available = False

    async def __call__(self, request: HTTPRequest) -> HTTPResponse:
        """Forward a request and return the response."""
        if not self.available:
            return unavailable()
        try:
            address = await self.address()
        except ServiceNotResolved:
            return unavailable()
        upgrade = request.headers.get("Upgrade", "").lower()
        try:
            if upgrade == "websocket":
                return await self._bridge_websocket(request, address)
            if upgrade == SPDY and "upgrade" in request.headers.get("Connection", "").lower():
                return await self._tunnel(request, address)
            return await self._forward(request, address)
        except InvalidHeader as error:
            raise ServiceUnavailable(f"error trying to reach service: net/http: {error}") from None

    async def address(self) -> str:
        """Return host and port of the server; raise `ServiceNotResolved`."""
        return await self.remote.address(self.service)

    def connect_host(self, host: str) -> str:
        """Return the host to connect to for the host of a URL."""
        return host

    def _target(self, request: HTTPRequest, address: str, scheme: str) -> Any:
        from yarl import URL

        query = f"?{request.query.raw}" if request.query.raw else ""
        path = quote(request.raw_path, safe="/%:@!$&'()*+,;=~-._")
        return URL(f"{scheme}://{address}{path}{query}", encoded=True)

    def _headers(self, request: HTTPRequest) -> list[tuple[str, str]]:
        headers = forwarded_headers(request.headers) + identity_headers(request.user)
        if request.remote:
            headers.append(("X-Forwarded-For", request.remote))
        if request.span is not None:
            headers = [pair for pair in headers if pair[0].lower() != "traceparent"]
            headers.append(("Traceparent", request.span.context.traceparent))
        headers.append(("Audit-Id", escape_value(request.audit_id)))
        return [
            pair
            for position, pair in enumerate(headers)
            if pair[0].lower() != "audit-id" or position == len(headers) - 1
        ]

    async def _forward(self, request: HTTPRequest, address: str) -> HTTPResponse:
        import aiohttp

        session = await self.remote.session()
        url = self._target(request, address, "https" if self.tls else "http")
        body = await request.read(BODY_LIMIT) if request.method not in ("GET", "HEAD") else b""

        def send(context: ssl.SSLContext | None) -> Awaitable[aiohttp.ClientResponse]:
            return session.request(
                request.method,
                url,
                headers=self._headers(request),
                data=body or None,
                ssl=context or True,
                server_hostname=self.remote.name(self.service),
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
            )

        try:
            response = await connect(self.remote, self.service, address, send)
        except (aiohttp.ClientError, OSError) as error:
            raise ServiceUnavailable(f"error trying to reach service: {explain(str(url), error)}") from None
        headers: dict[str, str | list[str]] = {}
        for name in response.headers:
            if name.lower() not in _DROPPED and name not in headers:
                values = response.headers.getall(name)
                headers[name] = values[0] if len(values) == 1 else values
        content_type = response.headers.get("Content-Type", "")
        length = response.content_length
        if length is not None and length <= 1 << 20:
            async with response:
                return HTTPResponse(
                    response.status, await response.read(), content_type=content_type, headers=headers
                )
        return HTTPResponse(
            response.status, content_type=content_type, headers=headers, stream=_chunks(response)
        )

    async def _bridge_websocket(self, request: HTTPRequest, address: str) -> HTTPResponse:
        import aiohttp

        session = await self.remote.session()
        protocols = [each for each in websocket_protocols(request) if is_token(each)]

        def open_socket(context: ssl.SSLContext | None) -> Awaitable[aiohttp.ClientWebSocketResponse]:
            return session.ws_connect(
                self._target(request, address, "wss" if self.tls else "ws"),
                protocols=protocols,
                headers=self._headers(request),
                ssl=context or True,
                server_hostname=self.remote.name(self.service),
                max_msg_size=MESSAGE_LIMIT,
            )

        try:
            other = await connect(self.remote, self.service, address, open_socket)
        except aiohttp.WSServerHandshakeError as error:
            # aiohttp discards the body; the same request without an upgrade is rejected in the same way.
            rejected = await self._forward(request, address)
            if rejected.status == error.status:
                return rejected
            return HTTPResponse(
                error.status, error.message.encode(), content_type="text/plain; charset=utf-8"
            )
        except (aiohttp.ClientError, OSError) as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from None

        async def relay(socket: WebSocket) -> None:
            await _relay(socket, other, self._ends_with)

        return HTTPResponse(websocket=relay, protocols=(other.protocol,) if other.protocol else ())

    def _ends_with(self, message: bytes | str, protocol: str) -> bool:
        """Whether the server may end the connection after a message without a close frame."""
        return False

    async def _tunnel(self, request: HTTPRequest, address: str) -> HTTPResponse:
        """Tunnel a SPDY connection."""
        from .tunnels import tunnel

        url = self._target(request, address, "https" if self.tls else "http")
        headers = [*self._headers(request), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
        body = await request.read(BODY_LIMIT) if request.method not in ("GET", "HEAD") else b""

        def open_tunnel(context: ssl.SSLContext | None) -> Awaitable[HTTPResponse]:
            return tunnel(
                request.method,
                url,
                headers,
                body,
                context=context if self.tls else None,
                server_hostname=self.remote.name(self.service),
                host=self.connect_host(url.host or ""),
            )

        try:
            return await connect(self.remote, self.service, address, open_tunnel)
        except (ConnectionFailed, OSError) as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from None


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()


async def _relay(
    socket: WebSocket,
    other: aiohttp.ClientWebSocketResponse,
    ends_with: Callable[[bytes | str, str], bool],
) -> None:
    """Copy messages in both directions until one side closes.

    A server that ends the connection without a close frame has failed, unless `ends_with` accepts one of its
    messages as the last one.
    """
    import asyncio

    import aiohttp

    is_complete = False

    async def outward() -> None:
        while True:
            message = await socket.receive()
            if message is None:
                return
            await (other.send_str(message) if isinstance(message, str) else other.send_bytes(message))

    async def inward() -> None:
        nonlocal is_complete
        async for message in other:
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                is_complete = is_complete or ends_with(message.data, other.protocol or "")
                await socket.send(message.data)

    tasks = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await other.close()
        await socket.close(_close_code(other.close_code, is_complete=is_complete))


def _close_code(received: int | None, *, is_complete: bool) -> int:
    """Return the code of the close frame to the client: that of the server, if it can be sent.

    RFC 6455 reserves 1005, 1006 and 1015 for connections that end without a code.
    """
    if not received or received == 1005:
        return 1000
    if received in (1006, 1015):
        return 1000 if is_complete else 1011
    return received
