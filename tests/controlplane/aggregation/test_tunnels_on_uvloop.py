"""SPDY tunnels on uvloop, which `kubewright up` uses: its transports are not those of asyncio."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from kubewright.apiserver import APIServer, HTTPResponse, Resource, Subresource, Version, serve
from kubewright.apiserver.http.server import run
from kubewright.controlplane.aggregation.tunnels import tunnel
from kubewright.storage.memory import MemoryStorage

UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


class ClientEnd:
    """The client's end of a tunnel, in memory."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)
        self.received = b""
        self._response = asyncio.Event()

    async def receive(self) -> bytes:
        if not self._messages:
            await self._response.wait()
            return b""
        return self._messages.pop(0)

    async def send(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(b"BYE"):
            self._response.set()


async def shell(asked: Any) -> HTTPResponse:
    """Return the input in upper case."""

    async def handle_tunnel(connection: Any) -> None:
        while data := await connection.receive():
            await connection.send(data.upper())

    return HTTPResponse(101, headers=dict(UPGRADE), tunnel=handle_tunnel)


def test_bytes_pass_through_both_ends_of_a_tunnel(tmp_path: Path) -> None:
    pytest.importorskip("uvloop")
    end: list[ClientEnd] = []

    async def main() -> None:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        server = APIServer(MemoryStorage())
        version = Version(name="v1", subresources={"shell": Subresource(handler=shell, connects=True)})
        server.add(Resource(group="s.io", kind="Session", plural="sessions", versions=[version]))
        async with serve(server) as front, asyncio.timeout(60):
            context = ssl.create_default_context(cadata=front.authority_pem.decode())
            assert front.authority is not None
            front.authority.issue("tester", groups=("system:masters",)).write(tmp_path / "c", tmp_path / "k")
            context.load_cert_chain(tmp_path / "c", tmp_path / "k")
            url = URL(f"{front.url}/apis/s.io/v1/namespaces/default/sessions/a/shell")
            response = await tunnel(
                "GET", url, list(UPGRADE.items()), b"", context=context, server_hostname=None
            )
            assert response.status == 101
            assert response.tunnel is not None
            end.append(ClientEnd(b"hello ", b"x" * 3_000_000, b"bye"))
            await response.tunnel(end[0])

    run(main)
    assert end[0].received == b"HELLO " + b"X" * 3_000_000 + b"BYE"
