"""Protocol upgrades other than WebSocket.

A handler that returns `HTTPResponse(101, headers={"Upgrade": ...}, tunnel=function)` receives the connection
as a `Tunnel` after the 101 response is written. The aggregator forwards SPDY to extension API servers this
way. WebSocket handlers use `HTTPResponse(websocket=...)`.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from kubewright.client.transport.headers import encode_head

from .responses import header_pairs

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.web_protocol import RequestHandler

    from .messages import HTTPResponse

HIGH_WATER = 1 << 20
"""Bytes that may wait to be read before the socket is paused."""


class ClientTunnel(asyncio.Protocol):
    """The client's connection after the upgrade."""

    def __init__(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self._handler = handler
        self._transport = transport
        self._received = bytearray()
        self._ended = False
        self._paused = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._received += data
        self._readable.set()
        if len(self._received) > HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop: wake waiting coroutines, and let the request handler release the connection."""
        self._ended = True
        self._readable.set()
        self._writable.set()
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writable.set()

    async def receive(self) -> bytes:
        """Return received bytes; empty after the client has disconnected."""
        await self._readable.wait()
        data = bytes(self._received)
        self._received.clear()
        if not self._ended:
            self._readable.clear()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        """Write with flow control; `ConnectionResetError` after the client has disconnected."""
        if self._ended:
            raise ConnectionResetError("client disconnected")
        self._transport.write(data)
        await self._writable.wait()


class _ClosedTunnel:
    """The tunnel to a client that disconnected before the upgrade: lets the handler close its other end."""

    async def receive(self) -> bytes:
        return b""

    async def send(self, data: bytes) -> None:
        raise ConnectionResetError("client disconnected")


class _FinishedResponse(web.StreamResponse):
    """The response after a tunnel has ended: nothing is left to write."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Do nothing: everything is written."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: everything is written."""


async def run_tunnel(handler: RequestHandler, response: HTTPResponse) -> web.StreamResponse:
    """Write the 101 response, run the tunnel handler, close the connection."""
    assert response.tunnel is not None
    transport = handler.transport
    if transport is None or transport.is_closing():
        await response.tunnel(_ClosedTunnel())
        return _FinishedResponse()
    start_line = f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"
    head = encode_head(start_line, header_pairs(response), escape=True)
    tunnel = ClientTunnel(handler, transport)
    transport.set_protocol(tunnel)
    transport.write(head)
    try:
        await response.tunnel(tunnel)
    finally:
        transport.close()
    return _FinishedResponse()
