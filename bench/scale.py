"""How costs grow with the number of namespaces, CRDs and objects: `make bench scale`.

Each figure is measured at a small and at a large size of the same server in the same run. The target of the
large size is the cost of the small size, plus half for noise: a ratio above 1 means that the cost per
operation grows with the size. 10,000 pods run on 500 nodes. Latencies are wall-clock times, without a
target.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Any

from bench import Benchmark
from bench._process import Server, together
from bench.controlplane import control_plane
from bench.workloads import large_rollout

NAMESPACES = (1_000, 10_000)
CRDS = (100, 2_000)
OBJECTS = (1_000, 100_000)
SAMPLE = 400
TOLERANCE = 1.5

NAMESPACE_PATH = "/api/v1/namespaces"
CONFIGMAP_PATH = f"{NAMESPACE_PATH}/default/configmaps"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


async def _cost(server: Server, numbers: range, one: Callable[[int], Awaitable[object]]) -> float:
    """CPU seconds of the server per request."""
    before = server.process.cpu()
    await together(numbers, one)
    return (server.process.cpu() - before) / len(numbers)


async def _namespaces() -> dict[str, float]:
    costs: dict[str, float] = {}
    small, large = NAMESPACES
    async with control_plane() as (server, _, _):

        async def create(number: int) -> None:
            await server.request("POST", NAMESPACE_PATH, {"metadata": {"name": f"n-{number}"}}, status=201)

        async def create_configmap(number: int) -> None:
            body = {"metadata": {"name": f"c-{number}"}, "data": {"key": "value"}}
            await server.request("POST", CONFIGMAP_PATH, body, status=201)

        async def annotate() -> None:
            for number in range(1_000_000):
                body = {"metadata": {"annotations": {"number": str(number)}}}
                await server.request("PATCH", f"{NAMESPACE_PATH}/n-0", body, headers=MERGE_PATCH)
                await asyncio.sleep(0.5)

        await together(range(small - SAMPLE), create)
        costs["create, small"] = await _cost(server, range(small - SAMPLE, small), create)
        await together(range(small, large - SAMPLE), create)
        costs["create, large"] = await _cost(server, range(large - SAMPLE, large), create)
        costs["configmap, quiet"] = await _cost(server, range(SAMPLE), create_configmap)
        task = asyncio.create_task(annotate())
        try:
            await asyncio.sleep(0.1)
            costs["configmap, annotated"] = await _cost(server, range(SAMPLE, 4 * SAMPLE), create_configmap)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    return costs


def _crd(number: int) -> dict[str, Any]:
    group = f"g{number}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def _crds() -> dict[str, float]:
    small, large = CRDS
    async with control_plane() as (server, _, _):

        async def create(number: int) -> None:
            await server.request("POST", CRD_PATH, _crd(number), status=201)

        first = await _cost(server, range(small), create)
        await together(range(small, large - small), create)
        last = await _cost(server, range(large - small, large), create)
    return {"small": first, "large": last}


async def _objects() -> dict[str, float]:
    costs: dict[str, float] = {}
    small, large = OBJECTS
    async with control_plane() as (server, _, _):

        async def create(number: int) -> None:
            body = {"metadata": {"name": f"c-{number}"}, "data": {"key": "value"}}
            await server.request("POST", CONFIGMAP_PATH, body, status=201)

        async def select(number: int) -> None:
            await server.request("GET", f"{CONFIGMAP_PATH}?fieldSelector=metadata.name%3Dc-{number}")

        await together(range(small), create)
        costs["select, small"] = await _cost(server, range(SAMPLE), select)
        await together(range(small, large), create)
        costs["select, large"] = await _cost(server, range(SAMPLE), select)
        table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        scan = asyncio.create_task(server.request("GET", CONFIGMAP_PATH, headers=table))
        latencies = []
        while not scan.done():
            begun = time.monotonic()
            await server.request("GET", f"{CONFIGMAP_PATH}/c-0")
            latencies.append(time.monotonic() - begun)
        await scan
        latencies.sort()
        costs["p50"] = latencies[len(latencies) // 2]
        costs["p99"] = latencies[int(len(latencies) * 0.99)]
    return costs


@cache
def _run(measurement: Callable[[], Any]) -> dict[str, float]:
    costs: dict[str, float] = asyncio.run(measurement())
    return costs


def _pair(names: tuple[str, str], costs: dict[str, float], keys: tuple[str, str]) -> Iterator[Benchmark]:
    """A figure at two sizes; the target of the second comes from the first."""
    small, large = (costs[key] for key in keys)
    yield Benchmark(name=names[0], run=lambda: small, self_timed=True)
    yield Benchmark(name=names[1], run=lambda: large, target_us=small * TOLERANCE * 1e6, self_timed=True)


def benchmarks() -> list[Benchmark]:
    """One run of each measurement."""
    namespaces, crds, objects = _run(_namespaces), _run(_crds), _run(_objects)
    return [
        *_pair(
            (f"create a namespace, {NAMESPACES[0]:,} exist", f"create a namespace, {NAMESPACES[1]:,} exist"),
            namespaces,
            ("create, small", "create, large"),
        ),
        *_pair(
            (
                f"create a ConfigMap, {NAMESPACES[1]:,} namespaces",
                "the same while a namespace is updated twice a second",
            ),
            namespaces,
            ("configmap, quiet", "configmap, annotated"),
        ),
        *_pair(
            (f"create a CRD, {CRDS[0]:,} exist", f"create a CRD, {CRDS[1]:,} exist"),
            crds,
            ("small", "large"),
        ),
        *_pair(
            (
                f"list by metadata.name, {OBJECTS[0]:,} objects",
                f"list by metadata.name, {OBJECTS[1]:,} objects",
            ),
            objects,
            ("select, small", "select, large"),
        ),
        *(
            Benchmark(
                name=f"GET while a table of {OBJECTS[1]:,} rows is listed, wall clock {percentile}",
                run=lambda percentile=percentile: objects[percentile],
                self_timed=True,
            )
            for percentile in ("p50", "p99")
        ),
        *large_rollout(),
    ]
