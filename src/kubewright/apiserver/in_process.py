"""Client transport that calls an API server in the same process.

    client = Client(REST(InProcessTransport(server)))

Requests pass the whole pipeline (authorization, admission, validation, storage, watches); only TLS and HTTP
are skipped. The user is an argument instead of a certificate or token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from multidict import CIMultiDict

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError, from_response
from kubewright.client.errors import ConnectionFailed
from kubewright.client.transport.interface import APIResponse, Headers, ResponseStream, WebSocketConnection

from .authentication.user import AUTHENTICATED, MASTERS, User
from .http.messages import HTTPRequest, HTTPResponse
from .server import APIServer

ADMINISTRATOR = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


class InProcessTransport:
    """A `kubewright.client.transport.interface.Transport` to an `APIServer`."""

    def __init__(
        self, server: APIServer, user: User | None = ADMINISTRATOR, headers: Mapping[str, str] | None = None
    ) -> None:
        """`user` sends the requests; with `None`, the server authenticates them by their headers."""
        self.server = server
        self.user = user
        self._headers = CIMultiDict(headers or {})

    def _request(
        self, method: str, path: str, query: str, headers: Headers | None, body: bytes
    ) -> HTTPRequest:
        if self._headers or headers is None:
            headers = CIMultiDict((*self._headers.items(), *(headers.items() if headers else ())))
        request = HTTPRequest(
            method,
            unquote(path) if "%" in path else path,
            query=query,
            headers=headers,
            body=body,
            user=self.user,
            remote="127.0.0.1",
        )
        request.raw_path = path
        return request

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        """Send a request; return the complete response."""
        request = self._request(method, path, query, headers, body)
        if timeout is None:
            return await self._complete(request)
        async with asyncio.timeout(timeout):
            return await self._complete(request)

    async def _complete(self, request: HTTPRequest) -> APIResponse:
        response = await self.server.handle(request)
        if response.stream is None:
            return APIResponse(response.status, _headers(response), await response.read())
        stream = _Stream(response, None)
        try:
            return APIResponse(response.status, stream.headers, b"".join([chunk async for chunk in stream]))
        finally:
            await stream.aclose()

    async def stream(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> ResponseStream:
        """Send a request; return its streamed response."""
        async with asyncio.timeout(timeout):
            response = await self.server.handle(self._request(method, path, query, headers, body))
        return _Stream(response, idle_timeout)

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        """Open a WebSocket."""
        handshake = CIMultiDict(headers or {})
        handshake.update(
            {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                "Sec-WebSocket-Protocol": ", ".join(protocols),
            }
        )
        async with asyncio.timeout(timeout):
            response = await self.server.handle(self._request("GET", path, query, handshake, b""))
        if response.websocket is None:
            raise _error(response)
        agreed = next((each for each in response.protocols if each in protocols), "")
        client_end, server_end = _SocketEnd.pair(agreed)

        async def run_handler() -> None:
            assert response.websocket is not None
            try:
                await response.websocket(server_end)
            finally:
                await server_end.close()

        client_end.task = asyncio.create_task(run_handler())
        return client_end

    def invalidate_credentials(self) -> bool:
        """Do nothing: there are no credentials."""
        return False

    async def aclose(self) -> None:
        """Do nothing: the server keeps running."""


def _headers(response: HTTPResponse) -> CIMultiDict[str]:
    single: dict[str, Any] = {"Content-Type": response.content_type, **response.headers}
    if list not in map(type, single.values()):
        return CIMultiDict(single)
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in single.items():
        headers.extend((name, each) for each in (value if isinstance(value, list) else (value,)))
    return headers


def _error(response: HTTPResponse) -> APIError:
    try:
        status = codec.loads(response.body)
    except codec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return APIError.from_status(status, response.status)
    return from_response(response.status, response.body.decode(errors="replace"), verb="get")


class _Stream:
    """The chunks of a response."""

    def __init__(self, response: HTTPResponse, idle_timeout: float | None) -> None:
        self.status = response.status
        self.headers = _headers(response)
        self._idle_timeout = idle_timeout
        self._source = response.stream
        self._whole = response.body if response.stream is None else b""
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise StopAsyncIteration
        if self._source is None:
            whole, self._whole = self._whole, b""
            if not whole:
                raise StopAsyncIteration
            return whole
        try:
            async with asyncio.timeout(self._idle_timeout):
                return await anext(self._source)
        except TimeoutError:
            await self.aclose()
            raise ConnectionFailed(f"no data received for {self._idle_timeout:.0f} s") from None

    async def aclose(self) -> None:
        self._closed = True
        source, self._source = self._source, None
        close = getattr(source, "aclose", None)
        if close is not None:
            with suppress(RuntimeError):
                await close()


class _SocketEnd:
    """One end of a WebSocket between two coroutines."""

    def __init__(self, protocol: str, inbox: asyncio.Queue[bytes | str | None]) -> None:
        self.protocol = protocol
        self.task: asyncio.Task[None] | None = None
        self._inbox = inbox
        self._peer: _SocketEnd
        self._closed = False

    @classmethod
    def pair(cls, protocol: str) -> tuple[_SocketEnd, _SocketEnd]:
        client_end, server_end = cls(protocol, asyncio.Queue(64)), cls(protocol, asyncio.Queue(64))
        client_end._peer, server_end._peer = server_end, client_end
        return client_end, server_end

    async def receive(self) -> bytes | str | None:
        if self._closed or (self._peer._closed and self._inbox.empty()):
            return None
        message = await self._inbox.get()
        if message is None:
            self._closed = True
        return message

    async def send(self, data: bytes | str) -> None:
        if self._closed or self._peer._closed:
            raise ConnectionFailed("WebSocket is closed")
        await self._peer._inbox.put(data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if not self._peer._closed:
            with suppress(asyncio.QueueFull):
                self._peer._inbox.put_nowait(None)
        self._closed = True
        if self.task is not None and not self.task.done():
            self.task.cancel()
