"""Pods on simulated nodes: `kubewright up --nodes N` in another process, over TLS.

Measured are the cost of one node at the start, and the rollout of 50 Deployments with 1,000 pods on 20 nodes
until all Deployments are available: CPU of the control plane with its controllers, scheduler and kubelets,
wall time, and memory. `make bench scale` also runs 10,000 pods on 500 nodes.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench import Benchmark
from bench._process import Server, together
from bench.controlplane import control_plane

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ROLLOUT = (50, 20, 20)
"""Deployments, replicas of each, nodes."""
LARGE_ROLLOUT = (100, 100, 500)
STARTS = 5
IDLE_SECONDS = 20.0
TIMEOUT = 900.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """Costs of one rollout, and of the idle control plane after it."""

    cpu: float
    wall: float
    memory: float
    idle_cpu: float
    """CPU seconds per second, without changes."""


def deployment(number: int, replicas: int) -> dict[str, Any]:
    """Return the manifest of a Deployment."""
    labels = {"app": f"web-{number}"}
    pod = {"containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"web-{number}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


async def _available(server: Server) -> int:
    items = json.loads(await server.request("GET", DEPLOYMENTS))["items"]
    return sum((item.get("status") or {}).get("availableReplicas", 0) for item in items)


async def roll_out(deployments: int, replicas: int, nodes: int) -> Rollout:
    """Create Deployments and wait until all of their pods are available."""
    async with control_plane("--nodes", str(nodes)) as (server, _, _):
        cpu, begun = server.process.cpu(), time.monotonic()

        async def create(number: int) -> None:
            await server.request("POST", DEPLOYMENTS, deployment(number, replicas), status=201)

        await together(range(deployments), create)
        while (count := await _available(server)) < deployments * replicas:
            if time.monotonic() - begun > TIMEOUT:
                raise RuntimeError(f"{count} of {deployments * replicas} pods are available")
            await asyncio.sleep(0.25)
        cpu, wall = server.process.cpu() - cpu, time.monotonic() - begun
        await _wait_for_events(server)
        idle = server.process.cpu()
        await asyncio.sleep(IDLE_SECONDS)
        return Rollout(cpu, wall, server.process.rss(), (server.process.cpu() - idle) / IDLE_SECONDS)


async def _wait_for_events(server: Server) -> None:
    """Wait until the kubelets have sent their events, which wait for the end of a burst of writes."""
    used = 1.0
    while used > 0.2:
        before = server.process.cpu()
        await asyncio.sleep(1)
        used = server.process.cpu() - before


async def _start(nodes: int) -> tuple[float, float]:
    async with control_plane("--nodes", str(nodes)) as (server, _, cpu):
        await asyncio.sleep(1)
        return cpu, server.process.rss()


@cache
def _starts() -> dict[int, tuple[float, float]]:
    """Return CPU and memory of the cheapest start, without and with a node."""
    found: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for _ in range(STARTS):
        for nodes, results in found.items():
            results.append(asyncio.run(_start(nodes)))
    return {nodes: min(results) for nodes, results in found.items()}


@cache
def _rollout(deployments: int, replicas: int, nodes: int) -> Rollout:
    return asyncio.run(roll_out(deployments, replicas, nodes))


def large_rollout() -> list[Benchmark]:
    """Figures of 10,000 pods, for `bench.scale`."""
    result = _rollout(*LARGE_ROLLOUT)
    name = "10,000 pods on 500 nodes"
    return [
        Benchmark(name=f"{name}: CPU until available", run=lambda: result.cpu, self_timed=True),
        Benchmark(name=f"{name}: wall time until available", run=lambda: result.wall, self_timed=True),
        Benchmark(name=f"{name}: memory", run=lambda: result.memory, memory=True),
        Benchmark(name=f"{name}: CPU per second when idle", run=lambda: result.idle_cpu, self_timed=True),
    ]


def benchmarks() -> list[Benchmark]:
    """Starts with and without a node, then one rollout."""
    starts = _starts()
    (cpu, memory), (node_cpu, node_memory) = starts[0], starts[1]
    result = _rollout(*ROLLOUT)
    name = "1,000 pods of 50 Deployments on 20 nodes"
    return [
        Benchmark(name="start without nodes: CPU", run=lambda: cpu, self_timed=True),
        Benchmark(
            name="start with a node: CPU", run=lambda: node_cpu, target_ms=cpu * 1.1e3, self_timed=True
        ),
        Benchmark(name="idle without nodes: memory", run=lambda: memory, memory=True),
        Benchmark(name="idle with a node: memory", run=lambda: node_memory, target_mb=memory * 1.1),
        Benchmark(
            name=f"{name}: CPU until available", run=lambda: result.cpu, target_ms=12e3, self_timed=True
        ),
        Benchmark(
            name=f"{name}: wall time until available",
            run=lambda: result.wall,
            target_ms=15e3,
            self_timed=True,
        ),
        Benchmark(name=f"{name}: memory", run=lambda: result.memory, memory=True),
        Benchmark(name=f"{name}: CPU per second when idle", run=lambda: result.idle_cpu, self_timed=True),
    ]
