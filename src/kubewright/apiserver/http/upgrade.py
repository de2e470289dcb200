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

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.web_protocol import RequestHandler

    from .messages import HTTPResponse

HIGH_WATER = 1 << 20
"""Bytes that may wait to be read before the socket is paused."""


class ClientTunnel(asyncio.Protocol):
    """The client's connection, taken over from the handler of its requests."""

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
        """Called by the loop: whoever waits is told, and the handler, which keeps count of connections."""
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
        """What has arrived; empty when the client has gone."""
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
        """Write, as fast as the client reads."""
        if self._ended:
            raise ConnectionResetError("the client has gone")
        self._transport.write(data)
        await self._writable.wait()


class _Gone:
    """The tunnel to a client that has left before it was open; whoever made the other end can close it."""

    async def receive(self) -> bytes:
        return b""

    async def send(self, data: bytes) -> None:
        raise ConnectionResetError("the client has gone")


class _Done(web.StreamResponse):
    """What is left to answer once a tunnel has ended: nothing."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Everything was written."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything was written."""


async def converse(handler: RequestHandler, response: HTTPResponse) -> web.StreamResponse:
    """Answer with the 101, give the connection to the response's function, and close it when that ends."""
    assert response.tunnel is not None
    transport = handler.transport
    if transport is None or transport.is_closing():
        await response.tunnel(_Gone())
        return _Done()
    assert isinstance(transport, asyncio.Transport)
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    for name, value in response.headers.items():
        lines += [f"{name}: {each}" for each in ((value,) if isinstance(value, str) else value)]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header contains a line break")
    tunnel = ClientTunnel(handler, transport)
    transport.set_protocol(tunnel)
    transport.write("\r\n".join([*lines, "", ""]).encode("utf-8"))
    try:
        await response.tunnel(tunnel)
    finally:
        transport.close()
    return _Done()


__all__ = ["ClientTunnel", "converse"]
