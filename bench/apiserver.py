"""The API server over loopback TLS: CPU of the server's process per operation.

The server runs in a process of its own, on uvloop, over the store in memory; its CPU time is read before and
after. The client's cost is not counted.
"""

# ruff: noqa: ASYNC220, ASYNC240 (files and processes around a measurement may block)

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from bench import Benchmark

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


def serve_forever(directory: str) -> None:
    """The server's process."""
    import gc

    from kubewright.apiserver import APIServer, Resource, StatusSubresource, Version, serve
    from kubewright.apiserver.http import run
    from kubewright.schema.structural import Node
    from kubewright.storage.memory import MemoryStorage

    async def main() -> None:
        server = APIServer(MemoryStorage())
        version = Version(name="v1", schema=Node(SCHEMA), subresources={"status": StatusSubresource()})
        server.add(Resource(group=GROUP, kind="Widget", plural="widgets", versions=[version]))
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


class Server:
    """A server's process, a client for it, and its CPU time."""

    def __init__(self, process: subprocess.Popen[bytes], session: aiohttp.ClientSession, url: str) -> None:
        self.process = process
        self.session = session
        self.url = url

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> float:
        """Resident memory in MB."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(text[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def request(
        self, method: str, path: str, body: Any = None, status: int = 200, **headers: str
    ) -> bytes:
        """One request; the status must be as expected."""
        data = json.dumps(body).encode() if body is not None else None
        async with self.session.request(method, self.url + path, data=data, headers=headers) as response:
            text = await response.read()
            if response.status != status:
                raise RuntimeError(f"{method} {path}: {response.status} {text[:300]!r}")
            return text

    async def create_many(self, count: int, size: int, prefix: str, parallel: int = 8) -> None:
        """Create objects, several at a time."""
        names = iter(range(count))

        async def work() -> None:
            for number in names:
                await self.request("POST", BASE, widget(f"{prefix}-{number}", size), 201, **_JSON)

        await asyncio.gather(*(work() for _ in range(parallel)))


_JSON = {"Content-Type": "application/json"}


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Server]:
    """A fresh server."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen([sys.executable, "-m", "bench.apiserver", directory])
        try:
            port = Path(directory, "port")
            deadline = time.monotonic() + 30
            while not port.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the server did not start")
                await asyncio.sleep(0.02)
            context = ssl.create_default_context(cafile=str(Path(directory, "ca.crt")))
            context.load_cert_chain(Path(directory, "client.crt"), Path(directory, "client.key"))
            connector = aiohttp.TCPConnector(ssl=context, limit=0)
            timeout = aiohttp.ClientTimeout(total=None)
            async with aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False
            ) as session:
                session.headers["Accept-Encoding"] = "identity"
                yield Server(process, session, f"https://127.0.0.1:{port.read_text()}")
        finally:
            process.terminate()
            process.wait()


async def get_cost() -> float:
    """GET of a 1 KB object."""
    async with running() as server:
        await server.create_many(1, 1000, "one")

        async def many(count: int) -> None:
            async def work() -> None:
                for _ in range(count):
                    await server.request("GET", f"{BASE}/one-0")

            await asyncio.gather(*(work() for _ in range(8)))

        await many(100)
        before = server.cpu()
        await many(1000)
        return (server.cpu() - before) / 8000


async def create_cost() -> float:
    """POST of a 1 KB object with a schema and managedFields."""
    async with running() as server:
        await server.create_many(300, 1000, "warm")
        before = server.cpu()
        await server.create_many(3000, 1000, "new")
        return (server.cpu() - before) / 3000


async def status_cost() -> float:
    """PUT of the status of a 1 KB object."""
    async with running() as server:
        await server.create_many(8, 1000, "one")

        async def work(number: int, count: int) -> None:
            obj = json.loads(await server.request("GET", f"{BASE}/one-{number}"))
            for ready in range(count):
                obj["status"] = {"ready": ready, "conditions": [{"type": "Ready", "status": str(ready)}]}
                obj = json.loads(
                    await server.request("PUT", f"{BASE}/one-{number}/status", obj, 200, **_JSON)
                )

        await asyncio.gather(*(work(number, 40) for number in range(8)))
        before = server.cpu()
        await asyncio.gather(*(work(number, 400) for number in range(8)))
        return (server.cpu() - before) / 3200


async def list_cost() -> float:
    """LIST of 10,000 objects of 2 KB; prints the memory that the server then has."""
    async with running() as server:
        empty = server.rss()
        await server.create_many(10_000, 2000, "many")
        print(
            f"    server memory, empty {empty:.0f} MB, with 10,000 x 2 KB: {server.rss():.0f} MB (target 100)"
        )
        await server.request("GET", BASE)
        before = server.cpu()
        for _ in range(5):
            await server.request("GET", BASE)
        return (server.cpu() - before) / 5


async def fanout_cost(watchers: int = 100, burst: int = 20, bursts: int = 50) -> float:
    """Delivery of one event to one of 100 watchers, in bursts; the writes themselves are subtracted."""
    async with running() as server:

        async def writes(prefix: str) -> None:
            for number in range(bursts):
                await server.create_many(burst, 1000, f"{prefix}-{number}", parallel=burst)

        await writes("warm")
        before = server.cpu()
        await writes("alone")
        alone = server.cpu() - before
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
        before = server.cpu()
        await writes("watched")
        await asyncio.gather(*tasks)
        return max(server.cpu() - before - alone, 0.0) / (wanted * watchers)


def benchmarks() -> list[Benchmark]:
    """What is measured."""

    def timed(run: Any) -> Any:
        return lambda: asyncio.run(run())

    return [
        Benchmark(name="GET", run=timed(get_cost), target_us=100, self_timed=True),
        Benchmark(name="create, 1 KB", run=timed(create_cost), target_us=400, self_timed=True),
        Benchmark(name="status update, 1 KB", run=timed(status_cost), target_us=450, self_timed=True),
        Benchmark(name="list, 10,000 x 2 KB", run=timed(list_cost), target_ms=60, self_timed=True),
        Benchmark(name="watch event, 100 watchers", run=timed(fanout_cost), target_us=8, self_timed=True),
    ]


if __name__ == "__main__":
    serve_forever(sys.argv[1])
