"""The control plane beside the floor: a bare server on the same stack that stores objects in a dict.

The bare server has TLS, uvloop, aiohttp's low-level server with its parser in C, and msgspec to decode and
encode bodies, and nothing else: no authentication, authorization, admission, validation, managedFields,
storage or watch cache. Both servers run at the same time; rounds alternate between them, and the best round
of each counts. A line shows the CPU time of `kubewright up` per operation, and its ratio to the bare server.

    python -m bench floor              all operations, with ratios and targets
"""

# ruff: noqa: ASYNC240 (files around a measurement may block)

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Benchmark
from bench._process import MeasuredServer, Process, Server, session, together
from bench.apiserver import BASE, widget
from bench.controlplane import CONFIGMAPS, control_plane, define

ROUNDS = 5
OBJECTS = 10_000
WRITE_SIZE = 128 * 1024
"""Bytes of a list that the bare server writes at a time."""
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
STATUS = "/status"


def serve_forever(directory: str) -> None:
    """The process of the bare server."""
    import gc

    import msgspec
    from aiohttp import web

    from kubewright.apiserver.http.server import run
    from kubewright.tls.certificates import CertificateAuthority, server_context

    objects: dict[str, Any] = {}
    watchers: set[web.StreamResponse] = set()
    listed: dict[str, bytes] = {}
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode

    async def send(type_: str, obj: Any) -> None:
        if watchers:
            event = encode({"type": type_, "object": obj}) + b"\n"
            for watcher in list(watchers):
                await watcher.write(event)

    async def write_list(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body)
        await response.prepare(request)
        view = memoryview(body)
        for start in range(0, len(body), WRITE_SIZE):
            await response.write(view[start : start + WRITE_SIZE])
        return response

    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        watchers.add(response)
        try:
            await asyncio.Event().wait()
        finally:
            watchers.discard(response)
        return response

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        path, method = request.path, request.method
        if method == "GET":
            if "watch" in request.query_string:
                return await watch(request)
            if path not in objects:  # a list: its bytes are written as they are
                if path not in listed:
                    items = [obj for key, obj in objects.items() if key.startswith(path)]
                    listed[path] = encode({"items": items})
                return await write_list(request, listed[path])
            return web.Response(body=encode(objects[path]), content_type="application/json")
        if method == "DELETE":
            obj = objects.pop(path)
            await send("DELETED", obj)
            return web.Response(body=encode(obj), content_type="application/json")
        obj = decode(await request.read())
        if method == "POST":
            path = f"{path}/{obj['metadata']['name']}"
            objects[path] = obj
            await send("ADDED", obj)
            return web.Response(body=encode(obj), status=201, content_type="application/json")
        path = path.removesuffix(STATUS)
        if method == "PATCH":
            obj = objects[path] | obj
        objects[path] = obj
        await send("MODIFIED", obj)
        return web.Response(body=encode(obj), content_type="application/json")

    async def main() -> None:
        authority = CertificateAuthority.create()
        context = server_context(authority.issue("floor", hosts=("127.0.0.1",), server=True))
        server = web.Server(handle, access_log=None)
        sockets = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=context)
        Path(directory, "ca.crt").write_bytes(authority.certificate)
        Path(directory, "port.new").write_text(str(sockets.sockets[0].getsockname()[1]))
        Path(directory, "port.new").rename(Path(directory, "port"))
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        await asyncio.Event().wait()

    run(main)


@contextlib.asynccontextmanager
async def bare_server() -> AsyncIterator[Server]:
    """A fresh bare server."""
    with tempfile.TemporaryDirectory() as directory:
        process = Process([sys.executable, "-m", "bench.floor", directory])
        try:
            port = Path(directory, "port")
            await process.written(port)
            context = ssl.create_default_context(cafile=str(Path(directory, "ca.crt")))
            async with session(context) as client:
                yield Server(process, client, f"https://127.0.0.1:{port.read_text()}")
        finally:
            process.stop()


Operation = Callable[[MeasuredServer, int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """CPU seconds per operation of `kubewright up` and of the bare server."""

    ours: float
    floor: float

    @property
    def ratio(self) -> float:
        """The cost of `kubewright up` as a multiple of the floor."""
        return self.ours / self.floor


async def _compare(servers: tuple[Server, Server], count: int, one: Operation, warm: int = 200) -> Comparison:
    """Alternate rounds of `count` operations; the number of an operation never repeats."""
    costs: tuple[list[float], list[float]] = ([], [])
    for server in servers:
        await together(range(warm), lambda each, to=server: one(to, each))
    begin = warm
    for _ in range(ROUNDS):
        for server, measured in zip(servers, costs, strict=True):
            before = server.cpu()
            await together(range(begin, begin + count), lambda each, to=server: one(to, each))
            measured.append((server.cpu() - before) / count)
        begin += count
    return Comparison(min(costs[0]), min(costs[1]))


async def _create(server: MeasuredServer, number: int) -> None:
    await server.request("POST", BASE, widget(f"w-{number}", 1000), status=201)


async def _create_config_map(server: MeasuredServer, number: int) -> None:
    body = {"metadata": {"name": f"c-{number}"}, "data": {"key": "v" * 900}}
    await server.request("POST", CONFIGMAPS, body, status=201)


async def _get(server: MeasuredServer, number: int) -> None:
    await server.request("GET", f"{BASE}/w-0")


_held: dict[tuple[str, str, str], Any] = {}
"""The latest response by server, name and part, because an update has the resource version it replaces."""


async def _put(server: MeasuredServer, number: int, part: str) -> None:
    name = f"w-{number % 200}"
    key, path = (server.url, name, part), f"{BASE}/{name}"
    obj = _held.get(key) or json.loads(await server.request("GET", path))
    if part:
        obj["status"] = {"ready": number, "conditions": [{"type": "Ready", "status": str(number)}]}
    else:
        obj["spec"]["replicas"] = number
    _held[key] = json.loads(await server.request("PUT", f"{path}{part}", obj))


async def _update(server: MeasuredServer, number: int) -> None:
    await _put(server, number, "")


async def _update_status(server: MeasuredServer, number: int) -> None:
    await _put(server, number, STATUS)


async def _patch(server: MeasuredServer, number: int) -> None:
    body = {"status": {"ready": number}}
    await server.request("PATCH", f"{BASE}/w-{number % 200}{STATUS}", body, headers=MERGE)


async def _apply(server: MeasuredServer, number: int) -> None:
    body = {**widget(f"w-{number % 200}", 1000), "spec": {"replicas": number, "image": "app:2"}}
    path = f"{BASE}/w-{number % 200}?fieldManager=bench-apply&force=true"
    await server.request("PATCH", path, body, headers=APPLY)


async def _delete(server: MeasuredServer, number: int) -> None:
    await server.request("DELETE", f"{BASE}/w-{number + 200}")


OPERATIONS: dict[str, tuple[int, Operation, float | None]] = {
    "create a custom resource, 1 KB": (600, _create, 4.0),
    "create a ConfigMap, 1 KB": (500, _create_config_map, 4.0),
    "get": (2000, _get, 1.5),
    "update": (400, _update, None),
    "status update": (400, _update_status, 4.0),
    "merge patch of the status": (400, _patch, None),
    "server-side apply": (200, _apply, None),
    "delete": (400, _delete, None),
}
"""Operations of a round, and the target of the ratio."""


async def _verbs() -> dict[str, Comparison]:
    async with control_plane("--nodes", "0") as (ours, _, _), bare_server() as floor:
        await define(ours)
        servers = (ours, floor)
        return {name: await _compare(servers, count, one) for name, (count, one, _) in OPERATIONS.items()}


async def _lists() -> Comparison:
    """CPU seconds of a list of 10,000 objects of 2 KB; the floor writes a body of the same length."""
    async with control_plane("--nodes", "0") as (ours, _, _), bare_server() as floor:
        await define(ours)
        for server in (ours, floor):
            await together(
                range(OBJECTS),
                lambda number, to=server: to.request("POST", BASE, widget(f"m-{number}", 2000), status=201),
            )
        costs: tuple[list[float], list[float]] = ([], [])
        lengths = [len(await server.request("GET", BASE)) for server in (ours, floor)]
        for _ in range(ROUNDS):
            for server, measured, length in zip((ours, floor), costs, lengths, strict=True):
                before = server.cpu()
                await server.request("GET", BASE)
                # Objects of the control plane also have server-set metadata and managedFields.
                measured.append((server.cpu() - before) * lengths[0] / length)
        return Comparison(min(costs[0]), min(costs[1]))


async def _fanout(server: Server, watchers: int = 100, burst: int = 20, bursts: int = 20) -> float:
    """CPU seconds to deliver one event to one of 100 watchers, in bursts; the writes are subtracted."""

    async def writes(prefix: str) -> None:
        for number in range(bursts):
            await asyncio.gather(
                *(
                    server.request("POST", BASE, widget(f"{prefix}-{number}-{each}", 1000), status=201)
                    for each in range(burst)
                )
            )

    await writes("warm")
    before = server.cpu()
    await writes("alone")
    alone = server.cpu() - before
    wanted, ready = burst * bursts, asyncio.Semaphore(0)
    listed = json.loads(await server.request("GET", f"{BASE}?limit=1"))
    version = listed.get("metadata", {}).get("resourceVersion", "0")

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
    return max(server.cpu() - before - alone, 1e-9) / (wanted * watchers)


async def _watch_events() -> Comparison:
    costs: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        async with control_plane("--nodes", "0") as (ours, _, _):
            await define(ours)
            costs[0].append(await _fanout(ours))
        async with bare_server() as floor:
            costs[1].append(await _fanout(floor))
    return Comparison(min(costs[0]), min(costs[1]))


def benchmarks() -> list[Benchmark]:
    """Every operation with its cost; the target is the floor times the target ratio."""
    results: dict[str, tuple[Comparison, float | None]] = {}
    for name, comparison in asyncio.run(_verbs()).items():
        results[name] = (comparison, OPERATIONS[name][2])
    results["list, 10,000 x 2 KB, beside writing its bytes"] = (asyncio.run(_lists()), 1.2)
    results["watch event to one of 100 watchers"] = (asyncio.run(_watch_events()), 1.5)
    return [
        Benchmark(
            name=f"{name} ({comparison.ratio:.2f}x the floor)",
            run=lambda cost=comparison.ours: cost,
            target_us=None if target is None else comparison.floor * target * 1e6,
            self_timed=True,
        )
        for name, (comparison, target) in results.items()
    ]


if __name__ == "__main__":
    serve_forever(*sys.argv[1:])
