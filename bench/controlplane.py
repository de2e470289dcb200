"""The control plane as users run it: `kubewright up` in another process, over TLS.

Measured are the time until it is ready and has created a first custom resource, its memory when idle and with
10,000 custom resources of 2 KB, and the CPU time of each verb through every stage (TLS, authentication, RBAC,
admission, schema, managedFields, storage, watch).
"""

# ruff: noqa: ASYNC240 (files around a measurement may block)

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import Benchmark
from bench._process import MeasuredServer, Process, Server, session, together
from bench.apiserver import BASE, GROUP, SCHEMA, widget

OBJECTS = 10_000
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEFINITION = {
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds, CPU seconds and MB."""

    ready: float
    ready_cpu: float
    first: float
    first_cpu: float
    idle: float


@contextlib.asynccontextmanager
async def control_plane(*options: str) -> AsyncIterator[tuple[Server, float, float]]:
    """A fresh one with these options, and how long it took on the wall and in CPU seconds."""
    with tempfile.TemporaryDirectory() as directory:
        ready, kubeconfig = Path(directory, "ready"), Path(directory, "kubeconfig")
        arguments = ("up", "--quiet", "--kubeconfig", str(kubeconfig), "--ready-file", str(ready), *options)
        process = Process([sys.executable, "-m", "kubewright.cli", *arguments])
        try:
            await process.written(ready)
            wall, cpu = time.monotonic() - process.begun, process.cpu()
            settings = yaml.load(kubeconfig.read_bytes(), yaml.CSafeLoader)
            cluster, user = settings["clusters"][0]["cluster"], settings["users"][0]["user"]
            context = ssl.create_default_context(
                cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
            )
            for name in ("client-certificate", "client-key"):
                Path(directory, name).write_bytes(base64.b64decode(user[f"{name}-data"]))
            context.load_cert_chain(Path(directory, "client-certificate"), Path(directory, "client-key"))
            async with session(context) as client:
                yield Server(process, client, cluster["server"], str(kubeconfig)), wall, cpu
        finally:
            process.stop()


async def define(server: MeasuredServer) -> None:
    """Create the CRD and a first object as early as possible."""
    await server.request("POST", DEFINITIONS, DEFINITION, status=201)
    deadline = time.monotonic() + 10
    while True:
        try:
            await server.request("POST", BASE, widget("first", 1000), status=201)
            return
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.005)


async def start() -> Start:
    """Start a server, create a CRD and an object, and wait until the server is idle."""
    async with control_plane() as (server, wall, cpu):
        idle = server.process.rss()
        await define(server)
        created, created_cpu = time.monotonic() - server.process.begun, server.process.cpu()
    return Start(wall, cpu, created, created_cpu, idle)


async def verbs() -> dict[str, float]:
    """CPU seconds of the server for each verb, and the memory with 10,000 objects."""
    costs: dict[str, float] = {}
    async with control_plane() as (server, _, _):
        await define(server)

        async def create(number: int) -> None:
            await server.request("POST", BASE, widget(f"w-{number}", 1000), status=201)

        async def change(number: int, part: str = "") -> None:
            path = f"{BASE}/w-{number % 200}"
            obj = held.get(number % 200) or json.loads(await server.request("GET", path))
            obj["spec" if not part else "status"] = _changed(obj, number, part)
            held[number % 200] = json.loads(await server.request("PUT", path + part, obj))

        async def patch(number: int) -> None:
            body = {"status": {"ready": number}}
            path = f"{BASE}/w-{number % 200}/status"
            await server.request(
                "PATCH", path, body, headers={"Content-Type": "application/merge-patch+json"}
            )

        async def apply(number: int) -> None:
            body = {**widget(f"w-{number % 200}", 1000), "spec": {"replicas": number, "image": "app:2"}}
            path = f"{BASE}/w-{number % 200}?fieldManager=bench-apply&force=true"
            await server.request(
                "PATCH", path, body, headers={"Content-Type": "application/apply-patch+yaml"}
            )

        async def create_configmap(number: int) -> None:
            body = {"metadata": {"name": f"c-{number}"}, "data": {"key": "v" * 900}}
            await server.request("POST", CONFIGMAPS, body, status=201)

        costs["create"] = await server.cost(1000, create)
        costs["get"] = await server.cost(3000, lambda _: server.request("GET", f"{BASE}/w-0"))
        held: dict[int, dict[str, Any]] = {}
        costs["update"] = await server.cost(1000, change)
        held.clear()
        costs["status"] = await server.cost(1000, lambda number: change(number, "/status"))
        costs["patch"] = await server.cost(1000, patch)
        costs["apply"] = await server.cost(600, apply)
        costs["delete"] = await server.cost(
            800, lambda number: server.request("DELETE", f"{BASE}/w-{number + 200}")
        )
        costs["configmap"] = await server.cost(1000, create_configmap)
    async with control_plane() as (server, _, _):
        await define(server)
        before = server.process.rss()
        await together(
            range(OBJECTS),
            lambda number: server.request("POST", BASE, widget(f"m-{number}", 2000), status=201),
        )
        costs["idle"], costs["full"] = before, server.process.rss()
        await server.request("GET", BASE)
        begun = server.process.cpu()
        for _ in range(3):
            await server.request("GET", BASE)
        costs["list"] = (server.process.cpu() - begun) / 3
        costs["watch"] = await _watch(server)
    return costs


def _changed(obj: dict[str, Any], number: int, part: str) -> dict[str, Any]:
    if part:
        return {"ready": number, "conditions": [{"type": "Ready", "status": str(number)}]}
    return {**obj["spec"], "replicas": number}


async def _watch(server: Server, watches: int = 5) -> float:
    """CPU seconds to deliver one initial event of a watch."""
    url = f"{server.url}{BASE}?watch=1&resourceVersion=0&timeoutSeconds=60"

    async def one() -> None:
        async with server.session.get(url) as response:
            seen = 0
            while seen < OBJECTS:
                seen += (await response.content.readany()).count(b'{"type":"ADDED"')

    await one()
    before = server.process.cpu()
    for _ in range(watches):
        await one()
    return (server.process.cpu() - before) / (watches * OBJECTS)


def benchmarks() -> list[Benchmark]:
    """Starts (the best of five), then the verbs (one run)."""
    starts = [asyncio.run(start()) for _ in range(6)][1:]
    costs = asyncio.run(verbs())

    def best(field: str) -> Callable[[], float]:
        return lambda: min(getattr(each, field) for each in starts)

    def cost(field: str) -> Callable[[], float]:
        return lambda: costs[field]

    def verb(name: str, field: str, target: float | None = None) -> Benchmark:
        return Benchmark(name=name, run=cost(field), target_us=target, self_timed=True)

    return [
        Benchmark(name="start to ready, CPU", run=best("ready_cpu"), target_ms=500, self_timed=True),
        Benchmark(name="start to ready, wall clock", run=best("ready"), self_timed=True),
        Benchmark(name="start to first custom resource, CPU", run=best("first_cpu"), self_timed=True),
        Benchmark(
            name="start to first custom resource, wall clock",
            run=best("first"),
            target_ms=600,
            self_timed=True,
        ),
        verb("get, 1 KB", "get"),
        verb("create, 1 KB", "create"),
        verb("update, 1 KB", "update"),
        verb("status update, 1 KB", "status"),
        verb("merge patch of the status", "patch"),
        verb("server-side apply", "apply"),
        verb("delete", "delete"),
        verb("create a ConfigMap, 1 KB", "configmap"),
        Benchmark(name=f"list, {OBJECTS:,} x 2 KB", run=cost("list"), self_timed=True),
        verb("watch from the start, per event", "watch"),
        Benchmark(name="memory, idle", run=best("idle"), target_mb=90),
        Benchmark(name=f"memory, {OBJECTS:,} x 2 KB", run=cost("full"), target_mb=160),
    ]
