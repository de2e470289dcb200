"""`BlockingProxy`: an HTTP proxy that lists the external systems that a program calls, and rejects them.

Programs find it in `HTTP_PROXY` and `HTTPS_PROXY`, which the HTTP clients of Go, Python and most other
languages use. Connections that ignore these variables, and other protocols, are not seen. Requests to the
host names of fake applications are forwarded to these.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from kubewright.testing.applications.application import FakeApplication

_LIMIT: Final = 64 * 1024
_RESPONSE: Final = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
)
_TEXT: Final = b"blocked by kubewright plan: no fake is declared for this address\n"


class BlockingProxy:
    """The proxy. Use it with `async with`."""

    def __init__(self, applications: Sequence[FakeApplication] = ()) -> None:
        """`applications` are served on ports of this machine."""
        self._applications = applications
        self.calls: list[str] = []
        """Addresses that were called."""
        self._server: asyncio.Server | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a program uses the proxy for everything but this machine."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        found = {}
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            found[name] = found[name.lower()] = f"http://127.0.0.1:{port}"
        return {**found, "NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}

    async def __aenter__(self) -> BlockingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LIMIT)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            line = head.split(b"\r\n", 1)[0].decode(errors="replace")
            fake = None if line.startswith("CONNECT ") else self._fake(_address(line))
            if fake is not None:
                await _forward(head, reader, writer, fake)
            else:
                self.calls.append(_address(line))
                writer.write(_RESPONSE % (len(_TEXT), _TEXT))
                await writer.drain()
        writer.close()

    def _fake(self, address: str) -> tuple[str, int] | None:
        """Return the address of a fake application on this machine."""
        host, _, port = address.rpartition(":")
        for each in self._applications:
            replicas = each.find(host, int(port))
            if replicas is not None:
                return each.choose(replicas).address
        return None


async def _forward(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: tuple[str, int]
) -> None:
    """Forward a connection to a fake application until one side closes it."""
    their_reader, their_writer = await asyncio.open_connection(*address)
    their_writer.write(head)
    copies = [
        asyncio.create_task(_copy(reader, their_writer)),
        asyncio.create_task(_copy(their_reader, writer)),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in copies:
            each.cancel()
        their_writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_LIMIT):
        target.write(data)
        await target.drain()


def _address(line: str) -> str:
    """Return host and port of a request line."""
    method, _, rest = line.partition(" ")
    target = rest.partition(" ")[0]
    if method == "CONNECT":
        return target
    parts = urlsplit(target)
    try:
        port = parts.port or 80
    except ValueError:
        port = 80
    return f"{parts.hostname or target}:{port}"
