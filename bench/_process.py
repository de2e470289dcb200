"""A server in a process of its own: its CPU time, its memory, and requests to it over TLS.

The cost of a server is the difference of its process's CPU time, so that the client's work is not counted.
The bytecode cache is enabled in the processes started here, as it is for users.
"""

# ruff: noqa: ASYNC240 (files around a measurement may block)

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

JSON = {"Content-Type": "application/json"}
PARALLEL = 8
ROUNDS = 4


def environment() -> dict[str, str]:
    """The environment of processes whose start is measured."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far."""
    # Clock id of another process's CPU clock on Linux; see clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


def resident_memory(pid: int) -> float:
    """Resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Process:
    """A process that is measured; it is ready when it has written a file."""

    def __init__(self, command: Sequence[str]) -> None:
        self.begun = time.monotonic()
        self.popen = subprocess.Popen(command, env=environment())

    async def written(self, path: Path, seconds: float = 60) -> None:
        """Wait for a file."""
        while not path.exists():
            if self.popen.poll() is not None or time.monotonic() - self.begun > seconds:
                raise RuntimeError("the server did not start")
            await asyncio.sleep(0.003)

    def cpu(self) -> float:
        """CPU seconds so far."""
        return cpu_seconds(self.popen.pid)

    def rss(self) -> float:
        """Resident memory in MB."""
        return resident_memory(self.popen.pid)

    def stop(self) -> None:
        """End it."""
        self.popen.terminate()
        self.popen.wait()


class MeasuredServer:
    """A server of one or more processes, and a client of it."""

    def __init__(self, pids: Sequence[int], session: aiohttp.ClientSession, url: str) -> None:
        self.pids = pids
        self.session = session
        self.url = url

    def cpu(self) -> float:
        """CPU seconds so far."""
        return sum(map(cpu_seconds, self.pids))

    def rss(self) -> float:
        """Resident memory in MB."""
        return sum(map(resident_memory, self.pids))

    async def request(
        self, method: str, path: str, body: Any = None, *, status: int = 200, headers: dict[str, str] = JSON
    ) -> bytes:
        """One request; the status must be as expected."""
        data = json.dumps(body).encode() if body is not None else None
        async with self.session.request(method, self.url + path, data=data, headers=headers) as response:
            text = await response.read()
            if response.status != status:
                raise RuntimeError(f"{method} {path}: {response.status} {text[:300]!r}")
            return text

    async def cost(self, count: int, one: Callable[[int], Awaitable[object]], warm: int = 200) -> float:
        """CPU seconds of the server for one of `count` requests, a few at a time, after `warm` others.

        They are made in rounds, and the best round counts. `one` takes the number of its request, which is
        never the same twice.
        """
        await together(range(warm), one)
        size, costs = count // ROUNDS, []
        for begin in range(warm, warm + size * ROUNDS, size):
            before = self.cpu()
            await together(range(begin, begin + size), one)
            costs.append((self.cpu() - before) / size)
        return min(costs)


class Server(MeasuredServer):
    """A server that was started for the measurement as one process."""

    def __init__(
        self, process: Process, session: aiohttp.ClientSession, url: str, kubeconfig: str = ""
    ) -> None:
        super().__init__((process.popen.pid,), session, url)
        self.process = process
        self.kubeconfig = kubeconfig


async def together(numbers: range, one: Callable[[int], Awaitable[object]]) -> None:
    """Do something for every number, a few at a time."""
    rest = iter(numbers)

    async def work() -> None:
        for number in rest:
            await one(number)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


@contextlib.asynccontextmanager
async def session(context: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    """An aiohttp session with keep-alive and without compression."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
    ) as opened:
        yield opened
