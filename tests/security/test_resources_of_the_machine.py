"""Clocks that jump, file limits and other resources of the machine that an attacker or an error exhausts."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys

import pytest
from tests.waiting import eventually

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.controlplane import ControlPlane
from kubewright.storage.memory import MemoryStorage

YEAR = 365 * 24 * 3600.0


class Clock:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_keys_expire_after_the_clock_was_set_forward_or_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(MemoryStorage, "maintenance_interval", 0.05)
    async with MemoryStorage(clock=clock) as storage:
        await storage.create("/kept", b"1")
        await storage.create("/event", b"1", ttl=3600)
        clock.now -= YEAR
        first = await storage.revision()
        for number in range(5):
            await storage.create(f"/after/{number}", b"1", ttl=60)
        assert await storage.get("/event") is not None
        clock.now += 61
        await eventually(lambda: _count(storage, "/after/", 0))
        clock.now += 2 * YEAR
        await eventually(lambda: _count(storage, "/event", 0))
        assert await storage.get("/kept") is not None
        assert await storage.revision() > first


async def test_history_is_compacted_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(MemoryStorage, "maintenance_interval", 0.05)
    compacted: list[int] = []
    async with MemoryStorage(clock=clock) as storage:
        original = storage._compact

        async def compact(revision: int) -> None:
            compacted.append(revision)
            await original(revision)

        monkeypatch.setattr(storage, "_compact", compact)
        clock.now -= YEAR

        def passes() -> bool:
            clock.now += 0.06
            return len(compacted) > 2

        await eventually(passes)


async def _count(storage: MemoryStorage, prefix: str, wanted: int) -> bool:
    return len((await storage.list(prefix)).items) == wanted


def test_the_file_limit_is_raised_to_the_hard_limit() -> None:
    code = (
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (64, 128))\n"
        "from kubewright.cli.clusters.up_start import raise_file_limit; raise_file_limit()\n"
        "print(r.getrlimit(r.RLIMIT_NOFILE))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "(128, 128)"


async def test_idle_connections_do_not_block_others() -> None:
    """Connections without a handshake, with half a handshake, and with half a request."""
    async with ControlPlane(port=0, controllers=False, nodes=0) as plane:
        assert plane.port is not None
        silent = [socket.create_connection(("127.0.0.1", plane.port)) for _ in range(150)]
        for each in silent[:50]:
            each.send(b"\x16\x03\x01")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        halves = []
        for _ in range(50):
            _, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=context)
            writer.write(b"GET /version HTTP/1.1\r\nHost: a\r\nX-A: ")
            halves.append(writer)
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=context)
        writer.write(b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        ready = await plane.server.handle(HTTPRequest("GET", "/readyz", user=SYSTEM))
        assert ready.status == 200
        for each in (*halves, writer):
            each.close()
        for each in silent:
            each.close()
