"""Cost curves: memory, CPU per operation and latency as a cluster grows.

Each curve has a server of its own that grows from point to point: `kubewright up` and, if the directory
`KUBEBUILDER_ASSETS` has the programs, kube-apiserver with etcd. CPU and memory are those of the server's
processes; latencies are wall-clock times of single requests of a client on the same machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import resource
import ssl
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypedDict

import aiohttp

from bench._process import ROUNDS, MeasuredServer, session, together
from bench.apiserver import BASE, GROUP, widget
from bench.controlplane import control_plane, define
from kubewright.storage import open_storage

OBJECTS = (1_000, 10_000, 100_000)
WATCHERS = (10, 100, 1_000, 5_000)
CRDS = (10, 500, 2_000)
NAMESPACES = (100, 10_000)
SAMPLE = 300
PAUSE = 5.0
"""Seconds in which a server can finish the work that its growth has caused before it is measured."""
NAMESPACE_PATH = "/api/v1/namespaces"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Figures(TypedDict):
    """CPU in microseconds, latencies in milliseconds."""

    cpu_us: float
    p50_ms: float
    p99_ms: float


class Point(TypedDict):
    """The figures of one size."""

    size: int
    rss_mb: float
    operations: dict[str, Figures]


class Curve(TypedDict):
    """A curve: its name, what was measured, the meaning of its sizes, and its points."""

    name: str
    server: str
    unit: str
    points: list[Point]


class Run(TypedDict):
    """All curves of a run, and the machine."""

    machine: str
    load: float
    curves: list[Curve]


Serve = Callable[[range], AbstractAsyncContextManager[MeasuredServer]]
"""Serve with further copies of the first object, of these numbers."""


class Target(Protocol):
    """A server whose curves are measured."""

    name: str

    def serve(self) -> AbstractAsyncContextManager[MeasuredServer]:
        """Start an empty server."""

    def grow(self) -> AbstractAsyncContextManager[Serve]:
        """Start a server with one custom resource, to be served again with more."""


class Kubewright:
    """`kubewright up`; with SQLite, and stopped while objects are copied, where it grows."""

    name = "kubewright up"

    @asynccontextmanager
    async def serve(self, *options: str) -> AsyncIterator[MeasuredServer]:
        """Start an empty server."""
        async with control_plane("--nodes", "0", *options) as (server, _, _):
            yield server

    @asynccontextmanager
    async def grow(self) -> AsyncIterator[Serve]:
        """Start a server with one custom resource, to be served again with more."""
        with tempfile.TemporaryDirectory() as directory:
            store = f"sqlite:{directory}/state.db"

            @asynccontextmanager
            async def serve(numbers: range) -> AsyncIterator[MeasuredServer]:
                await _copy_first_object(store, numbers)
                async with self.serve("--store", store) as server:
                    yield server

            async with self.serve("--store", store) as server:
                await define(server)
            yield serve


class KubeAPIServer:
    """kube-apiserver with etcd, without flushes to disk; objects are copied in etcd while it runs."""

    name = "kube-apiserver + etcd"

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[MeasuredServer]:
        """Start an empty server."""
        async with self._run() as (server, _):
            yield server

    @asynccontextmanager
    async def grow(self) -> AsyncIterator[Serve]:
        """Start a server with one custom resource, to be served again with more."""
        async with self._run() as (server, etcd):

            @asynccontextmanager
            async def serve(numbers: range) -> AsyncIterator[MeasuredServer]:
                await _copy_first_object(f"etcd://{etcd}", numbers)
                await asyncio.sleep(PAUSE)
                yield server

            await define(server)
            yield serve

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[tuple[MeasuredServer, str]]:
        from kubewright.testing.server import run_kube_apiserver

        with run_kube_apiserver() as running:
            config = running.config
            assert config.ca is not None
            context = ssl.create_default_context(cadata=config.ca.read().decode())
            async with session(context) as client:
                client.headers["Authorization"] = f"Bearer {config.token}"
                pids = [process.pid for process in running.processes]
                yield MeasuredServer(pids, client, config.server), running.etcd


async def _figures(
    server: MeasuredServer,
    one: Callable[[int], Awaitable[object]],
    count: int = SAMPLE,
    *,
    rounds: int = ROUNDS,
) -> Figures:
    """Send requests one after the other, in rounds; the CPU is that of the best round."""
    latencies, costs = [], []
    size = max(1, count // rounds)
    for start in range(0, count, size):
        numbers = range(start, min(start + size, count))
        before = server.cpu()
        for number in numbers:
            begun = time.perf_counter()
            await one(number)
            latencies.append(time.perf_counter() - begun)
        costs.append((server.cpu() - before) / len(numbers))
    latencies.sort()
    return {
        "cpu_us": round(min(costs) * 1e6, 1),
        "p50_ms": round(latencies[count // 2] * 1e3, 3),
        "p99_ms": round(latencies[int(count * 0.99)] * 1e3, 3),
    }


async def _point(
    server: MeasuredServer, size: int, operations: dict[str, Callable[[int], Awaitable[object]]]
) -> Point:
    measured = {name: await _figures(server, one) for name, one in operations.items()}
    return {"size": size, "rss_mb": round(server.rss(), 1), "operations": measured}


async def objects(target: Target) -> Curve:
    """Custom resources of 1 KB of data each.

    Most of them are copied in the store: 100,000 creates would measure the client.
    """
    points: list[Point] = []
    async with target.grow() as serve:
        existing = 1
        for size in OBJECTS:
            async with serve(range(existing, size)) as server:
                points.append(await _objects_point(server, size))
            existing = size
    return {"name": "objects", "server": target.name, "unit": "custom resources", "points": points}


async def _copy_first_object(store: str, numbers: range) -> None:
    async with open_storage(store) as storage:
        [first, *_] = (await storage.list(f"/registry/{GROUP}/widgets/default/first")).items
        for start in range(numbers.start, numbers.stop, 500):
            copies = []
            for number in range(start, min(start + 500, numbers.stop)):
                value = json.loads(first.value)
                value["metadata"] |= {"name": f"w-{number}", "uid": str(uuid.uuid4())}
                key = first.key.removesuffix("first") + f"w-{number}"
                copies.append(storage.create(key, json.dumps(value, separators=(",", ":")).encode()))
            await asyncio.gather(*copies)


async def _objects_point(server: MeasuredServer, size: int) -> Point:
    async def create(number: int) -> None:
        body = widget(f"n-{size}-{number}", 1000)
        await server.request("POST", BASE, body, status=201)

    async def get(number: int) -> None:
        await server.request("GET", f"{BASE}/w-{1 + number * 7919 % (size - 1)}")

    async def patch(number: int) -> None:
        path = f"{BASE}/w-{1 + number * 7919 % (size - 1)}"
        body = {"metadata": {"labels": {"number": str(number)}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        await server.request("PATCH", path, body, headers=headers)

    async def list_page(_: int) -> None:
        await server.request("GET", f"{BASE}?limit=500")

    operations: dict[str, Callable[[int], Awaitable[object]]] = {
        "create": create,
        "get": get,
        "patch": patch,
        "list 500": list_page,
    }
    await together(range(SAMPLE), get)
    return await _point(server, size, operations)


async def watchers(target: Target) -> Curve:
    """Watches of one namespace; every update is sent to all of them."""
    _raise_file_limit()
    points: list[Point] = []
    async with target.serve() as server:
        await define(server)
        received = 0
        changed = asyncio.Event()
        connections: list[asyncio.Task[None]] = []
        ready = 0

        async def watch(revision: str) -> None:
            nonlocal received, ready
            url = f"{server.url}{BASE}?watch=1&resourceVersion={revision}"
            timeout = aiohttp.ClientTimeout(total=None)
            async with server.session.get(url, timeout=timeout) as response:
                ready += 1
                changed.set()
                async for line in response.content:
                    received += line.count(b"\n")
                    changed.set()

        async def wait_for(reached: Callable[[], bool]) -> None:
            while not reached():
                changed.clear()
                await changed.wait()

        def all_ready() -> bool:
            return ready >= len(connections)

        async def update(_: int) -> None:
            """Patch an object and wait until every watch has received the event."""
            expected = received + len(connections)
            patch = {"metadata": {"labels": {"number": str(time.monotonic_ns())}}}
            headers = {"Content-Type": "application/merge-patch+json"}
            await server.request("PATCH", f"{BASE}/first", patch, headers=headers)
            await wait_for(lambda: received >= expected)

        for size in WATCHERS:
            listed = json.loads(await server.request("GET", f"{BASE}?limit=1"))
            revision = listed["metadata"]["resourceVersion"]
            while len(connections) < size:
                batch = min(50, size - len(connections))
                connections += [asyncio.create_task(watch(revision)) for _ in range(batch)]
                await wait_for(all_ready)
            count = max(20, min(SAMPLE, 100_000 // size))
            figures = await _figures(server, update, count)
            figures["cpu_us"] = round(figures["cpu_us"] / size, 3)
            points.append(
                {
                    "size": size,
                    "rss_mb": round(server.rss(), 1),
                    "operations": {"update, per watcher": figures},
                }
            )
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
    return {"name": "watchers", "server": target.name, "unit": "watchers", "points": points}


def _raise_file_limit() -> None:
    """Allow as many connections as the system permits; the server inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _crd(number: int) -> dict[str, Any]:
    group = f"g{number}.example.com"
    properties = {"size": {"type": "integer"}, "image": {"type": "string"}}
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def _wait_served(paths: list[str], server: MeasuredServer, seconds: float = 120) -> None:
    """Wait until paths are served: kube-apiserver establishes CRDs after their create."""
    deadline = time.monotonic() + seconds
    for path in paths:
        while True:
            try:
                await server.request("GET", path)
                break
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)


async def crds(target: Target) -> Curve:
    """Custom resource definitions of a group each."""
    points: list[Point] = []
    async with target.serve() as server:
        existing = 0
        sample = min(SAMPLE, CRDS[0])

        async def create(number: int) -> None:
            await server.request("POST", CRD_PATH, _crd(number), status=201)

        async def create_object(number: int) -> None:
            group = f"g{number % sample}.example.com"
            body = {
                "apiVersion": f"{group}/v1",
                "kind": "Widget",
                "metadata": {"generateName": "w-"},
                "spec": {"size": number, "image": "app"},
            }
            path = f"/apis/{group}/v1/namespaces/default/widgets"
            await server.request("POST", path, body, status=201)

        for size in CRDS:
            await together(range(existing, size - sample), create)
            start = size - sample

            async def create_next(number: int, start: int = start) -> None:
                await create(start + number)

            # One round: a part of the cost follows the responses.
            created = await _figures(server, create_next, sample, rounds=1)
            existing = size
            await asyncio.sleep(PAUSE)
            await _wait_served(
                [f"/apis/g{number}.example.com/v1/widgets" for number in range(sample)], server
            )
            await together(range(SAMPLE), create_object)  # The first object of a kind compiles its schema.
            point = await _point(server, size, {"create an object": create_object})
            point["operations"]["create a CRD"] = created
            points.append(point)
    return {"name": "crds", "server": target.name, "unit": "CRDs", "points": points}


async def namespaces(target: Target) -> Curve:
    """Namespaces with what the controllers create in them."""
    points: list[Point] = []
    async with target.serve() as server:
        existing = 0
        sample = min(SAMPLE, NAMESPACES[0])

        async def create(number: int) -> None:
            await server.request("POST", NAMESPACE_PATH, {"metadata": {"name": f"n-{number}"}}, status=201)

        async def create_config_map(number: int) -> None:
            body = {"metadata": {"generateName": "c-"}, "data": {"key": "value"}}
            path = f"{NAMESPACE_PATH}/n-{number * 7919 % existing}/configmaps"
            await server.request("POST", path, body, status=201)

        for size in NAMESPACES:
            await together(range(existing, size - sample), create)
            start = size - sample

            async def create_next(number: int, start: int = start) -> None:
                await create(start + number)

            # One round: a part of the cost follows the responses.
            created = await _figures(server, create_next, sample, rounds=1)
            existing = size
            await asyncio.sleep(PAUSE)
            point = await _point(server, size, {"create a ConfigMap": create_config_map})
            point["operations"]["create a namespace"] = created
            points.append(point)
    return {"name": "namespaces", "server": target.name, "unit": "namespaces", "points": points}


def measure_curves(save: Callable[[Run], object]) -> Run:
    """Measure all curves, one after the other; `save` is called after each."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    run: Run = {"machine": machine, "load": round(os.getloadavg()[0], 1), "curves": []}
    targets: list[Target] = [Kubewright()]
    if os.environ.get("KUBEBUILDER_ASSETS"):
        targets.append(KubeAPIServer())
    for curve in (watchers, crds, namespaces, objects):
        for target in targets:
            run["curves"].append(asyncio.run(curve(target)))
            print(format_curve(run["curves"][-1]), flush=True)
            save(run)
    return run


def format_curve(curve: Curve) -> str:
    """Return a curve as a table."""
    lines = [
        curve["server"],
        f"{curve['unit']:>20} {'RSS':>10}  {'operation':<22} {'CPU':>11} {'p50':>10} {'p99':>10}",
    ]
    for point in curve["points"]:
        for name, figures in point["operations"].items():
            lines.append(
                f"{point['size']:>20,} {point['rss_mb']:>7,.0f} MB  {name:<22} {figures['cpu_us']:>8,.1f} us "
                f"{figures['p50_ms']:>7,.2f} ms {figures['p99_ms']:>7,.2f} ms"
            )
    return "\n".join(lines)
