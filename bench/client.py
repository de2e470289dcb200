"""The client over loopback TLS: its own CPU per request, at several concurrencies.

The server, our control plane, runs in another process; only this process is counted. "wall" is the time from
start to end divided by the requests, so its inverse is requests per second. `kubernetes_asyncio` and
`lightkube` do the same reads beside it where they are installed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import Benchmark

REQUESTS = 960
_SERVER = """
import asyncio, sys, uvloop
from kubewright.controlplane import ControlPlane

async def main():
    async with ControlPlane(kubeconfig=sys.argv[1], controllers=False):
        print("ready", flush=True)
        await asyncio.Event().wait()

uvloop.run(main())
"""
Get = Callable[[], Awaitable[object]]


@cache
def _kubeconfig() -> str:
    """Start the server once, with one deployment in it; the path of its kubeconfig."""
    path = str(Path(tempfile.mkdtemp(prefix="kubewright-bench-")) / "kubeconfig")
    process = subprocess.Popen([sys.executable, "-c", _SERVER, path], stdout=subprocess.PIPE)
    atexit.register(process.kill)
    assert process.stdout is not None
    if process.stdout.readline().strip() != b"ready":
        raise RuntimeError("the server did not start")
    asyncio.run(_prepare(path))
    return path


async def _prepare(path: str) -> None:
    from kubewright.api.unstructured import Unstructured
    from kubewright.client import Client

    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": "registry.example.com/web:1.2.3",
        "env": [{"name": f"V{n}", "value": "x" * 40} for n in range(8)],
    }
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    async with Client.connect(path, metrics=False) as client:
        await client.create(
            Unstructured(
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
            ),
            namespace="default",
        )


async def _run(get: Get, concurrency: int) -> tuple[float, float]:
    async def worker() -> None:
        for _ in range(REQUESTS // concurrency):
            await get()

    await asyncio.gather(*(get() for _ in range(concurrency)))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return time.process_time() - cpu, time.perf_counter() - wall


async def _ours(concurrency: int) -> tuple[float, float]:
    from kubewright.api.apps.v1 import Deployment
    from kubewright.client import Client

    async with Client.connect(_kubeconfig()) as client:
        return await _run(lambda: client.get(Deployment, "web", namespace="default"), concurrency)


async def _kubernetes_asyncio(concurrency: int) -> tuple[float, float]:
    from kubernetes_asyncio import client, config

    await config.load_kube_config(_kubeconfig())
    async with client.ApiClient() as api:
        apps = client.AppsV1Api(api)
        return await _run(lambda: apps.read_namespaced_deployment("web", "default"), concurrency)


async def _lightkube(concurrency: int) -> tuple[float, float]:
    os.environ["KUBECONFIG"] = _kubeconfig()
    from lightkube import AsyncClient
    from lightkube.resources.apps_v1 import Deployment

    client: Any = AsyncClient()
    try:
        return await _run(lambda: client.get(Deployment, "web", namespace="default"), concurrency)
    finally:
        await client.close()


def _measure(run: Callable[[int], Any], concurrency: int, which: int, loop: str = "asyncio") -> float:
    _kubeconfig()
    if loop == "uvloop":
        import uvloop

        measured = uvloop.run(run(concurrency))
    else:
        measured = asyncio.run(run(concurrency))
    return float(measured[which])


def benchmarks() -> list[Benchmark]:
    """Typed gets of a deployment."""
    found = []
    for concurrency in (1, 16, 64):
        found.append(
            Benchmark(
                name=f"get typed, concurrency {concurrency}, CPU of the client",
                run=partial(_measure, _ours, concurrency, 0, "uvloop"),
                target_us=150,
                operations=REQUESTS,
                self_timed=True,
            )
        )
        found.append(
            Benchmark(
                name=f"get typed, concurrency {concurrency}, wall",
                run=partial(_measure, _ours, concurrency, 1, "uvloop"),
                operations=REQUESTS,
                self_timed=True,
            )
        )
    found.append(
        Benchmark(
            name="get typed, concurrency 16, plain asyncio, CPU",
            run=partial(_measure, _ours, 16, 0),
            operations=REQUESTS,
            self_timed=True,
        )
    )
    for name, peer in (("kubernetes_asyncio", _kubernetes_asyncio), ("lightkube", _lightkube)):
        if find_spec(name) is not None:
            found.append(
                Benchmark(
                    name=f"get with {name}, concurrency 16, CPU",
                    run=partial(_measure, peer, 16, 0),
                    operations=REQUESTS,
                    self_timed=True,
                )
            )
    return found
