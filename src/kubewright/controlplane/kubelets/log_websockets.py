"""Logs over WebSockets: the log of a container as messages, binary or in base64."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from kubewright.apiserver.http.messages import HTTPResponse, WebSocket

BINARY: Final = "binary.k8s.io"
BASE64: Final = "base64.binary.k8s.io"


def as_websocket(response: HTTPResponse) -> HTTPResponse:
    """Return a response that sends the body of another one over a WebSocket."""

    async def send_log(socket: WebSocket) -> None:
        sending = asyncio.create_task(_send(socket, response))
        closing = asyncio.create_task(_wait_for_close(socket))
        try:
            await asyncio.wait([sending, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            closing.cancel()
            await asyncio.gather(sending, closing, return_exceptions=True)
            with contextlib.suppress(ConnectionError, RuntimeError):
                await socket.close()

    return HTTPResponse(101, websocket=send_log, protocols=(BINARY, BASE64, ""))


async def _send(socket: WebSocket, response: HTTPResponse) -> None:
    encoded = socket.protocol == BASE64
    async for chunk in _chunks(response):
        await socket.send(base64.b64encode(chunk).decode() if encoded else chunk)


async def _chunks(response: HTTPResponse) -> AsyncIterator[bytes]:
    if response.stream is None:
        if response.body:
            yield response.body
        return
    async for chunk in response.stream:
        yield chunk


async def _wait_for_close(socket: WebSocket) -> None:
    while await socket.receive() is not None:
        pass
