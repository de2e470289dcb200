"""An operator on 100,000 custom resources: memory per object and CPU from its start until it has synced.

A `kubewright up` has the objects in its store. The operator (`bench/_large_operator.py`) runs in a process of
its own, so that the CPU of the server is counted apart from it. Memory per object is the growth of the
resident memory over the same operator without objects; "overhead" is that without the bytes of the objects as
JSON. `json.loads` of the same objects in the same process is the scale for CPU: machines differ, the ratio
does not. `BENCH_LARGE_OBJECTS` sets the number of objects; `BENCH_SLOWDOWN`, which multiplies the CPU target,
is how much slower a machine is than that of docs/performance.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import uuid
from dataclasses import dataclass
from functools import cache

import msgspec

from bench import Benchmark
from bench._large_operator import Case
from bench._process import Server, environment, together
from bench.apiserver import GROUP, widget
from bench.controlplane import control_plane, define
from kubewright.storage import open_storage

OBJECTS = int(os.environ.get("BENCH_LARGE_OBJECTS", "100000"))
EVENTS = min(1_000, OBJECTS // 100)
NAMESPACES = 10
SIZES = {"1 KB": 910, "2 KB": 1_910}
MAX_OVERHEAD = 1_000
"""Target of the memory per object besides its bytes."""
MAX_SYNC_SECONDS = 6.0
SLOWDOWN = float(os.environ.get("BENCH_SLOWDOWN", "1"))


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one operator: CPU seconds by phase, memory in bytes."""

    cpu: dict[str, float]
    objects: int
    raw: int
    rss: int
    peak: int
    loads: float
    server: float
    """CPU seconds of the server until the operator has synced."""
    event: float

    @property
    def synced(self) -> float:
        """CPU seconds from the start of the process until all requests are queued."""
        return self.cpu["start"] + self.cpu["sync"] + self.cpu["enqueue"]


def _cases(kubeconfig: str, size: str, directory: str) -> dict[str, Case]:
    def case(**options: object) -> Case:
        return msgspec.convert({"kubeconfig": kubeconfig, **options}, Case)

    cases = {
        "full objects": case(),
        "spilled to disk": case(spill=directory),
        "full objects, Operator": case(operator=True),
    }
    if size == "1 KB":
        cases |= {
            "with two indexes": case(indexes=True),
            "full objects, in pages": case(pages=True),
            "projection to one field": case(projection=True),
            "metadata only": case(metadata_only=True),
            "one of ten by label": case(labels="shard=0"),
            "one of ten namespaces": case(namespace="team-0"),
        }
    return cases


async def _fill(store: str, size: int) -> None:
    """Create the kind and its objects; all but the first are copied in the store while no server runs."""
    options = ("--nodes", "0", "--store", store)
    async with control_plane(*options) as (server, _, _):
        await define(server)
        path = f"/apis/{GROUP}/v1/namespaces/default/widgets"
        await server.request("DELETE", f"{path}/first")
        await server.request("POST", path, widget("first-object", size), status=201)
    async with open_storage(store) as storage:
        [first] = (await storage.list(f"/registry/{GROUP}/widgets/default/first-object")).items
        template = json.loads(first.value)
        for start in range(0, OBJECTS, 1000):
            copies = []
            for number in range(start, min(start + 1000, OBJECTS)):
                namespace, name = f"team-{number % NAMESPACES}", f"w-{number:06d}"
                template["metadata"] |= {
                    "name": name,
                    "namespace": namespace,
                    "uid": str(uuid.uuid4()),
                    "labels": {"app": f"app-{number % 1000}", "shard": str(number // 10 % 10)},
                }
                template["spec"]["image"] = f"registry.example.com/app:{number % 50}"
                value = json.dumps(template, separators=(",", ":")).encode()
                copies.append(storage.create(f"/registry/{GROUP}/widgets/{namespace}/{name}", value))
            await asyncio.gather(*copies)
        await storage.delete(first.key, expected=first.mod_revision)


async def _run(case: Case, server: Server) -> Cost:
    """Start the operator, let it reconcile everything, then change objects."""
    command = (sys.executable, "-m", "bench._large_operator", msgspec.json.encode(case).decode())
    before = server.process.cpu()
    operator = await asyncio.create_subprocess_exec(
        *command, env=environment(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert operator.stdin is not None
    assert operator.stdout is not None
    cpu: dict[str, float] = {}
    figures: dict[str, float] = {}
    served = 0.0

    async def phase(name: str) -> None:
        assert operator.stdout is not None
        line = await operator.stdout.readline()
        if not line:
            raise RuntimeError(f"the operator ended before the phase {name!r}")
        report = json.loads(line)
        assert report["phase"] == name, report
        cpu[name] = report["cpu"]
        figures.update(report)

    try:
        await phase("start")
        await phase("sync")
        served = server.process.cpu() - before
        for name in ("enqueue", "reconcile", "idle"):
            await phase(name)
        rss = int(figures["rss"])
        await phase("json.loads")
        if figures["objects"]:
            operator.stdin.write(f"{EVENTS}\n".encode())
            await phase("ready")
            await together(range(EVENTS), lambda number: _change(server, number))
            await phase("events")
        operator.stdin.close()
        await operator.wait()
    finally:
        if operator.returncode is None:
            operator.terminate()
            await operator.wait()
    return Cost(
        cpu,
        int(figures["objects"]),
        int(figures["raw"]),
        rss,
        int(figures["peak"]),
        cpu["json.loads"] / figures["share"] if figures["share"] else 0.0,
        served,
        cpu.get("events", 0.0) / EVENTS,
    )


async def _change(server: Server, number: int) -> None:
    """Change an object that every case caches: of team-0 and shard 0."""
    path = f"/apis/{GROUP}/v1/namespaces/team-0/widgets/w-{number % (OBJECTS // 100) * 100:06d}"
    body = {"metadata": {"annotations": {"number": uuid.uuid4().hex}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    await server.request("PATCH", path, body, headers=headers)


async def _measure(size: str) -> dict[str, Cost]:
    """Run all cases of one size and print them."""
    with tempfile.TemporaryDirectory() as directory:
        store = f"sqlite:{directory}/state.db"
        await _fill(store, SIZES[size])
        async with control_plane("--nodes", "0", "--store", store) as (server, _, _):
            # One with an Operator: its modules are not counted as memory of the objects.
            nothing = Case(kubeconfig=server.kubeconfig, namespace="default", operator=True)
            empty = await _run(nothing, server)
            cases = _cases(server.kubeconfig, size, directory)
            costs = {name: await _run(case, server) for name, case in cases.items()}
    _print(size, costs, empty)
    return {"empty": empty, **costs}


def _overhead(cost: Cost, empty: Cost) -> float:
    """Bytes of resident memory per object besides its own bytes."""
    return (cost.rss - empty.rss - cost.raw) / cost.objects


def _print(size: str, costs: dict[str, Cost], empty: Cost) -> None:
    full = costs["full objects"]
    print(
        f"large: an operator on {OBJECTS:,} custom resources of {full.raw / full.objects:,.0f} bytes ({size})"
    )
    columns = ("objects", "RSS", "peak", "per object", "overhead", "start", "sync", "enqueue", "reconcile")
    headings = "".join(f" {name:>10}" for name in (*columns, "event", "json.loads", "server"))
    print(f"  {'':<26}{headings}")
    for name, cost in costs.items():
        phases = "".join(f" {cost.cpu[each]:>8.2f} s" for each in ("start", "sync", "enqueue", "reconcile"))
        print(
            f"  {name:<26} {cost.objects:>10,} {cost.rss / 1e6:>7.0f} MB {cost.peak / 1e6:>7.0f} MB "
            f"{(cost.rss - empty.rss) / cost.objects:>8.0f} B {_overhead(cost, empty):>8.0f} B{phases} "
            f"{cost.event * 1e6:>7.0f} us {cost.loads:>8.2f} s {cost.server:>8.2f} s"
        )
    ratio = full.synced / full.loads
    print(f"  without objects {empty.rss / 1e6:.0f} MB; CPU to synced is {ratio:.1f}x json.loads", flush=True)


@cache
def _costs(size: str) -> dict[str, Cost]:
    return asyncio.run(_measure(size))


def benchmarks() -> list[Benchmark]:
    """Print the cases; return the figures with a target."""
    found = []
    for size in SIZES:
        costs = _costs(size)
        full, spilled, empty = costs["full objects, Operator"], costs["spilled to disk"], costs["empty"]
        found += [
            Benchmark(
                name=f"start to synced, {OBJECTS:,} objects of {size}",
                run=lambda full=full: full.synced,
                target_ms=MAX_SYNC_SECONDS * 1e3 * OBJECTS / 100_000 * SLOWDOWN,
                self_timed=True,
            ),
            Benchmark(
                name=f"memory besides the objects, {size}",
                run=lambda full=full, empty=empty: _overhead(full, empty) * OBJECTS / 1e6,
                target_mb=MAX_OVERHEAD * OBJECTS / 1e6,
            ),
            Benchmark(
                name=f"memory of objects that are spilled to disk, {size}",
                run=lambda spilled=spilled, empty=empty: (spilled.rss - empty.rss) / 1e6,
                target_mb=MAX_OVERHEAD * OBJECTS / 1e6,
            ),
        ]
    return found
