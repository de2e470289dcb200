"""The API server over loopback TLS: CPU of the server's process per operation.

The server runs in a process of its own, on uvloop, over the store in memory; its CPU time is read before and
after. The client's cost is not counted.
"""

# ruff: noqa: ASYNC240 (files around a measurement may block)

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Benchmark
from bench._process import Process, Server, session, together

GROUP = "bench.example.com"
BASE = f"/apis/{GROUP}/v1/namespaces/default/widgets"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "minimum": 0},
                "image": {"type": "string", "minLength": 1},
                "paused": {"type": "boolean", "default": False},
                "env": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "note": {"type": "string"},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "ready": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
}


def widget(name: str, size: int) -> dict[str, Any]:
    """An object of about `size` bytes."""
    body: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "one"}},
        "spec": {
            "replicas": 3,
            "image": "registry.example.com/app:1.2.3",
            "paused": False,
            "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}"} for n in range(8)],
            "note": "",
        },
    }
    body["spec"]["note"] = "x" * max(0, size - len(json.dumps(body)))
    return body


ENTRIES = 5000
ENTRIES_PATH = f"/apis/{GROUP}/{{}}/namespaces/default/entries"


def serve_forever(directory: str, kinds: str = "") -> None:
    """The server's process; with the kinds `entries` also a kind with two versions."""
    import gc

    from kubewright.apiserver import APIServer, Resource, StatusSubresource, Version, serve
    from kubewright.apiserver.http.server import run
    from kubewright.schema.structural import Node
    from kubewright.storage.memory import MemoryStorage

    async def main() -> None:
        server = APIServer(MemoryStorage())
        version = Version(name="v1", schema=Node(SCHEMA), subresources={"status": StatusSubresource()})
        server.add(Resource(group=GROUP, kind="Widget", plural="widgets", versions=[version]))
        if kinds == "entries":
            from bench._entries import entries

            server.add(entries())
        async with serve(server) as front:
            assert front.authority is not None
            client = front.authority.issue("bench", groups=("system:masters",))
            client.write(Path(directory, "client.crt"), Path(directory, "client.key"))
            Path(directory, "ca.crt").write_bytes(front.authority_pem)
            Path(directory, "port.new").write_text(str(front.port))
            Path(directory, "port.new").rename(Path(directory, "port"))
            gc.collect()
            gc.freeze()
            gc.set_threshold(100_000, 50, 100)
            await asyncio.Event().wait()

    run(main)


@contextlib.asynccontextmanager
async def running(*kinds: str) -> AsyncIterator[Server]:
    """A fresh server."""
    with tempfile.TemporaryDirectory() as directory:
        process = Process([sys.executable, "-m", "bench.apiserver", directory, *kinds])
        try:
            port = Path(directory, "port")
            await process.written(port)
            context = ssl.create_default_context(cafile=str(Path(directory, "ca.crt")))
            context.load_cert_chain(Path(directory, "client.crt"), Path(directory, "client.key"))
            async with session(context) as client:
                yield Server(process, client, f"https://127.0.0.1:{port.read_text()}")
        finally:
            process.stop()


async def create(server: Server, name: str, size: int = 1000) -> None:
    """Create one object."""
    await server.request("POST", BASE, widget(name, size), status=201)


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of one server process: CPU seconds per operation, and its memory in MB before and after."""

    get: float
    create: float
    status: float
    empty: float
    full: float
    list: float
    converted: float
    unchanged: float


async def _costs() -> Costs:
    async with running() as server:
        empty = server.process.rss()
        creating = await server.cost(2000, lambda number: create(server, f"new-{number}"), warm=300)
        getting = await server.cost(6000, lambda _: server.request("GET", f"{BASE}/new-0"))

        held: dict[int, dict[str, Any]] = {}

        async def write_status(number: int) -> None:
            path = f"{BASE}/new-{number % 200}"
            obj = held.get(number % 200) or json.loads(await server.request("GET", path))
            obj["status"] = _status(number)
            held[number % 200] = json.loads(await server.request("PUT", f"{path}/status", obj))

        writing = await server.cost(2000, write_status)
    async with running() as server:
        await together(range(10_000), lambda number: create(server, f"many-{number}", 2000))
        full = server.process.rss()
        await server.request("GET", BASE)
        before = server.process.cpu()
        for _ in range(5):
            await server.request("GET", BASE)
        listing = (server.process.cpu() - before) / 5
    return Costs(getting, creating, writing, empty, full, listing, *await _converted_lists())


async def _converted_lists() -> tuple[float, float]:
    """List objects in the version that is not stored: for the first time, and without changes since."""
    async with running("entries") as server:

        async def create_entry(number: int) -> None:
            body = {
                "apiVersion": f"{GROUP}/v2",
                "kind": "Entry",
                "metadata": {"name": f"entry-{number}"},
                "spec": {"reference": f"entry-{number + 1}", "referenceType": "Entry"},
            }
            await server.request("POST", ENTRIES_PATH.format("v2"), body, status=201)

        await together(range(ENTRIES), create_entry)
        before = server.process.cpu()
        await server.request("GET", ENTRIES_PATH.format("v1"))
        first = server.process.cpu() - before
        for _ in range(5):
            await server.request("GET", ENTRIES_PATH.format("v1"))
        return first, (server.process.cpu() - before - first) / 5


def _status(number: int) -> dict[str, Any]:
    return {"ready": number, "conditions": [{"type": "Ready", "status": str(number)}]}


async def fanout_cost(watchers: int = 100, burst: int = 20, bursts: int = 30) -> float:
    """Delivery of one event to one of 100 watchers, in bursts; the writes themselves are subtracted."""
    async with running() as server:

        async def writes(prefix: str) -> None:
            for number in range(bursts):
                await asyncio.gather(*(create(server, f"{prefix}-{number}-{each}") for each in range(burst)))

        await writes("warm")
        before = server.process.cpu()
        await writes("alone")
        alone = server.process.cpu() - before
        version = json.loads(await server.request("GET", f"{BASE}?limit=1"))["metadata"]["resourceVersion"]
        wanted = burst * bursts
        ready = asyncio.Semaphore(0)

        async def watch() -> None:
            url = f"{server.url}{BASE}?watch=1&resourceVersion={version}"
            async with server.session.get(url) as response:
                ready.release()
                seen = 0
                while seen < wanted:
                    seen += (await response.content.readany()).count(b'{"type":"ADDED"')

        tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
        for _ in tasks:
            await ready.acquire()
        before = server.process.cpu()
        await writes("watched")
        await asyncio.gather(*tasks)
        return max(server.process.cpu() - before - alone, 0.0) / (wanted * watchers)


def benchmarks() -> list[Benchmark]:
    """The benchmarks: all but the last in one run of the server, the better of two."""
    runs = [asyncio.run(_costs()) for _ in range(2)]

    def best(field: str) -> Callable[[], float]:
        return lambda: min(getattr(run, field) for run in runs)

    return [
        Benchmark(name="GET, 1 KB", run=best("get"), target_us=100, self_timed=True),
        Benchmark(name="create, 1 KB", run=best("create"), target_us=400, self_timed=True),
        Benchmark(name="status update, 1 KB", run=best("status"), target_us=450, self_timed=True),
        Benchmark(name="list, 10,000 x 2 KB", run=best("list"), target_ms=60, self_timed=True),
        Benchmark(
            name="watch event, 100 watchers",
            run=lambda: asyncio.run(fanout_cost()),
            target_us=8,
            self_timed=True,
        ),
        Benchmark(
            name="list, 500 in another version",
            run=best("converted"),
            target_ms=15,
            operations=ENTRIES // 500,
            self_timed=True,
        ),
        Benchmark(
            name="list, 500 in another version, unchanged",
            run=best("unchanged"),
            operations=ENTRIES // 500,
            self_timed=True,
        ),
        Benchmark(name="memory, empty", run=best("empty"), memory=True),
        Benchmark(name="memory, 10,000 x 2 KB", run=best("full"), target_mb=100),
    ]


if __name__ == "__main__":
    serve_forever(*sys.argv[1:])
