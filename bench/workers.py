"""`kubewright up --workers`: what a second process adds to the throughput of one.

The same load runs against one process and against two. Wall-clock throughput depends on the free cores of the
machine and on the client, which needs more CPU than the server; CPU time does not. The process with the most
CPU time per operation limits the throughput on a machine with enough cores: the lines "busiest process" have
the cost of one process, divided by the intended factor, as their target. The lines "all processes" show what
the division costs in total.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path

import aiohttp

from bench import Benchmark
from bench._process import JSON, Server
from bench.apiserver import BASE, widget
from bench.controlplane import control_plane, define

CONNECTIONS = 64
"""The kernel assigns connections to processes at random; with few of them the shares differ a lot."""
PARALLEL = 12
WRITERS = 15
GETS = 4_000
CREATES = 1_600
EVENTS = 150
READ_FACTOR, CREATE_FACTOR = 1.6, 1.3
"""Intended throughput of two processes, relative to one."""

Connection = aiohttp.ClientSession
Cost = tuple[float, float]
"""CPU seconds per operation: of the busiest process, and of all processes."""


def _processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _cpu(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


async def _measure(server: Server, operations: int, load: Callable[[], Awaitable[object]]) -> Cost:
    processes = _processes(server.process.popen.pid)
    before = [_cpu(each) for each in processes]
    await load()
    used = [_cpu(each) - start for each, start in zip(processes, before, strict=True)]
    return max(used) / operations, sum(used) / operations


@contextlib.asynccontextmanager
async def _connections(server: Server, count: int = CONNECTIONS) -> AsyncIterator[list[Connection]]:
    """Sessions with one connection each."""
    connector = server.session.connector
    assert isinstance(connector, aiohttp.TCPConnector)
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=connector._ssl, limit=1),
                    timeout=aiohttp.ClientTimeout(total=None),
                )
            )
            for _ in range(count)
        ]


async def _requests(
    connections: list[Connection],
    count: int,
    one: Callable[[Connection, int], Awaitable[object]],
    parallel: int,
) -> None:
    """Divide requests among all connections, of which `parallel` are used at the same time."""
    share = count // len(connections)
    rest = iter(range(len(connections)))

    async def work() -> None:
        for number in rest:
            for step in range(share):
                await one(connections[number], number * share + step)

    await asyncio.gather(*(work() for _ in range(parallel)))


async def _loads(workers: int) -> dict[str, Cost]:
    costs: dict[str, Cost] = {}
    async with (
        control_plane("--workers", str(workers)) as (server, _, _),
        _connections(server) as connections,
    ):
        await define(server)

        async def get(connection: Connection, number: int) -> None:
            async with connection.get(f"{server.url}{BASE}/first") as response:
                assert response.status == 200
                await response.read()

        async def create(connection: Connection, number: int) -> None:
            body = json.dumps(widget(f"w-{created}-{number}", 1000)).encode()
            async with connection.post(server.url + BASE, data=body, headers=JSON) as response:
                assert response.status == 201
                await response.read()

        # As many requests at the same time per process: each process is as busy as a single one.
        parallel = PARALLEL * workers
        created = 0
        await _requests(connections, CONNECTIONS * 4, get, parallel)
        costs["get"] = await _measure(server, GETS, lambda: _requests(connections, GETS, get, parallel))
        await _requests(connections, CONNECTIONS * 2, create, parallel)
        created = 1
        costs["create"] = await _measure(
            server, CREATES, lambda: _requests(connections, CREATES, create, parallel)
        )
        costs["watch"] = await _fan_out(server, connections)
    return costs


async def _fan_out(server: Server, connections: list[Connection]) -> Cost:
    """CPU seconds to deliver one event to one watch."""
    version = json.loads(await server.request("GET", f"{BASE}?limit=1"))["metadata"]["resourceVersion"]
    url = f"{server.url}{BASE}?watch=1&resourceVersion={version}"
    async with contextlib.AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(each.get(url)) for each in connections]
        writers = await stack.enter_async_context(_connections(server, WRITERS))

        async def read(watch: aiohttp.ClientResponse) -> None:
            seen = 0
            while seen < EVENTS:
                seen += (await watch.content.readany()).count(b"\n")

        async def write(connection: Connection, number: int) -> None:
            body = json.dumps(widget(f"e-{number}", 1000)).encode()
            async with connection.post(server.url + BASE, data=body, headers=JSON) as response:
                assert response.status == 201
                await response.read()

        async def load() -> None:
            reading = [asyncio.create_task(read(watch)) for watch in watches]
            await _requests(writers, EVENTS, write, 1)
            await asyncio.gather(*reading)

        return await _measure(server, EVENTS * len(watches), load)


def benchmarks() -> list[Benchmark]:
    """Run the loads against one and against two processes, when the first figure is requested."""

    @cache
    def costs(workers: int) -> dict[str, Cost]:
        return asyncio.run(_loads(workers))

    def cost(workers: int, load: str, scope: int) -> Callable[[], float]:
        return lambda: costs(workers)[load][scope]

    found = []
    for load, text, factor in (
        ("get", "get, 1 KB", READ_FACTOR),
        ("create", "create, 1 KB", CREATE_FACTOR),
        ("watch", f"event to one of {CONNECTIONS} watches", READ_FACTOR),
    ):
        target = costs(1)[load][0] / factor * 1e6
        found += [
            Benchmark(name=f"{text}, 1 process", run=cost(1, load, 0), self_timed=True),
            Benchmark(
                name=f"{text}, 2 processes, busiest process",
                run=cost(2, load, 0),
                target_us=target,
                self_timed=True,
            ),
            Benchmark(name=f"{text}, 2 processes, all processes", run=cost(2, load, 1), self_timed=True),
        ]
    return found
