"""SPDY tunnels through the aggregator, for `kubectl exec` of older versions.

The request is sent on a separate connection. After a 101 response, bytes are copied in both directions until
either side closes; other responses are forwarded unchanged.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from kubewright.apiserver.http.messages import HTTPResponse, Tunnel
from kubewright.client.errors import ConnectionFailed
from kubewright.client.transport.headers import encode_head
from kubewright.client.transport.http1 import BodyStream, Connection
from kubewright.client.transport.interface import read_limited

if TYPE_CHECKING:
    from multidict import CIMultiDict

CONNECT_TIMEOUT = 30.0
_OF_THE_CONNECTION = frozenset(("keep-alive", "transfer-encoding", "content-length", "content-type", "date"))


class _Far(Connection):
    """Connection to the extension API server, with back-pressure."""

    def __init__(self) -> None:
        super().__init__()
        self._writable = asyncio.Event()
        self._writable.set()

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writable.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop."""
        self._writable.set()
        super().connection_lost(exc)

    async def write(self, data: bytes) -> None:
        """Write."""
        assert self.transport is not None
        if not self.transport.is_closing():
            self.transport.write(data)
            await self._writable.wait()


async def tunnel(
    method: str,
    url: Any,
    headers: list[tuple[str, str]],
    body: bytes,
    *,
    context: ssl.SSLContext | None,
    server_hostname: str | None,
    host: str = "",
) -> HTTPResponse:
    """Request the upgrade; raise `OSError` or `ConnectionFailed` without a response.

    `host` is what to connect to, if it is not the host of the URL; without `context`, TLS is not used.
    """
    pairs = [("Host", url.host_port_subcomponent), *headers]
    if any(name == "Host" for name, _ in headers):
        del pairs[0]
    if body:
        pairs.append(("Content-Length", str(len(body))))
    request = encode_head(f"{method} {url.raw_path_qs} HTTP/1.1", pairs, escape=True) + body
    async with asyncio.timeout(CONNECT_TIMEOUT):
        _, far = await asyncio.get_running_loop().create_connection(
            _Far,
            host or url.host,
            url.port,
            ssl=context,
            server_hostname=(server_hostname or url.host) if context is not None else None,
        )
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            response = await far.stream(method, request)
            if (
                response.status == 101
                and response.headers.get("Upgrade", "").lower() != dict(headers)["Upgrade"].lower()
            ):
                raise ConnectionFailed("the server upgraded to another protocol")
            if response.status != 101:
                body = await read_limited(response)
                content_type = response.headers.get("Content-Type", "")
                far.abort()
                return HTTPResponse(
                    response.status,
                    body,
                    content_type=content_type,
                    headers=_headers(response.headers, upgraded=False),
                )
    except BaseException:
        far.abort()
        raise

    async def carry(near: Tunnel) -> None:
        await _carry(near, far, response)

    return HTTPResponse(101, headers=_headers(response.headers, upgraded=True), tunnel=carry)


def _headers(headers: CIMultiDict[str], *, upgraded: bool) -> dict[str, str | list[str]]:
    dropped = _OF_THE_CONNECTION if upgraded else _OF_THE_CONNECTION | {"connection", "upgrade"}
    kept: dict[str, str | list[str]] = {}
    for name in headers:
        if name.lower() not in dropped and name not in kept:
            values = headers.getall(name)
            kept[name] = values[0] if len(values) == 1 else values
    return kept


async def _carry(near: Tunnel, far: _Far, response: BodyStream) -> None:
    async def outward() -> None:
        while data := await near.receive():
            await far.write(data)

    async def inward() -> None:
        async for data in response:
            await near.send(data)

    tasks = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, ConnectionFailed | OSError):
                raise result
        far.abort()
