"""The cache: cost of watching 10,000 custom resources of about 2.3 KB, compared with other Python libraries.

A server is started (`kubewright up`, or the one of `BENCH_KUBECONFIG`) and loaded. Then programs that cache
the objects of the kind (`bench/peers`: Kubewright and the other libraries that are installed) are started one
after the other. CPU time and resident memory of each process, including its start, are read when it reports
that it has synced. Then objects are changed, and each program reports when its handler is called.

Output of the programs: `synced COUNT TIME`, then `seen SEQUENCE TIME` for each change of `spec.seq`; times
are of the monotonic clock, which all processes share.
"""

# ruff: noqa: ASYNC220 (processes and files around a measurement may block)

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import Benchmark
from kubewright.api import CustomResource, GroupVersionKind, Spec, Unstructured
from kubewright.cache import Cache, CachedClient, KindOptions, by_field, by_label
from kubewright.client import Client, merge_patch

WIDGET = GroupVersionKind("bench.example.dev", "v1", "Widget")
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
OBJECTS = int(os.environ.get("BENCH_OBJECTS", "10000"))
UPDATES, UPDATES_PER_SECOND = 200, 50
PEERS = ("lightkube", "kubernetes_asyncio", "kubernetes", "kopf")
PROGRAMS = Path(__file__).parent / "peers"
START_TIMEOUT = 120.0


class WidgetSpec(Spec):
    """Spec of the objects of the load."""

    image: str = ""
    replicas: int = 0
    seq: int = 0
    env: list[dict[str, str]] | None = None
    notes: dict[str, str] | None = None


class Widget(CustomResource[WidgetSpec, dict[str, Any]]):
    """The kind, typed."""

    gvk = WIDGET


def widget(number: int) -> dict[str, Any]:
    """An object of about 2.3 KB as the server sends it, 2.1 KB without its managed fields."""
    return {
        "apiVersion": WIDGET.api_version,
        "kind": WIDGET.kind,
        "metadata": {
            "name": f"w-{number:06d}",
            "namespace": "load",
            "labels": {"app": f"app-{number % 1000}", "tier": "bench"},
            "annotations": {"example.dev/description": "an object of a size that is common"},
        },
        "spec": {
            "image": f"registry.example.dev/team/app:{number % 50}",
            "replicas": number % 7,
            "env": [{"name": f"VARIABLE_{index}", "value": f"value-{number}-{index}"} for index in range(12)],
            "notes": {
                f"note-{index}": f"{number:08d} lorem ipsum dolor sit amet " * 2 for index in range(14)
            },
        },
    }


def definition() -> dict[str, Any]:
    """The CRD."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {"name": "widgets.bench.example.dev"},
        "spec": {
            "group": WIDGET.group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The kubeconfig of a running server."""
    given = os.environ.get("BENCH_KUBECONFIG")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "kubeconfig")
        command = [
            sys.executable,
            "-c",
            "from kubewright.cli import main; main()",
            "up",
            "--kubeconfig",
            str(path),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "is ready" in line:
                    break
            else:
                raise RuntimeError("kubewright up did not start")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield str(path)
        finally:
            process.terminate()
            process.wait()


async def load(kubeconfig: str) -> None:
    """Create the objects that do not exist yet."""
    async with Client.connect(kubeconfig, metrics=False) as client:
        if await client.list(DEFINITION, fields={"metadata.name": "widgets.bench.example.dev"}) == []:
            await client.create(definition())
        namespaces = {each.name for each in await client.list("namespaces")}
        if "load" not in namespaces:
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "load"}})
        async with asyncio.timeout(30):
            while True:
                try:
                    page = await client.list_raw(WIDGET, limit=1)
                    break
                except Exception:
                    await asyncio.sleep(0.2)
        numbers = iter(range(OBJECTS if not page.items else 0))

        async def create() -> None:
            for number in numbers:
                await client.create(widget(number))

        await asyncio.gather(*(create() for _ in range(16)))


@dataclass(slots=True)
class Program:
    """A running program and its output."""

    process: subprocess.Popen[str]
    synced: threading.Event = field(default_factory=threading.Event)
    count: int = 0
    seen: dict[int, float] = field(default_factory=dict)

    def listen(self) -> None:
        """Read its output until it exits."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["synced"]:
                self.count = int(words[1])
                self.synced.set()
            elif words[:1] == ["seen"]:
                self.seen.setdefault(int(words[1]), float(words[2]))

    def cpu(self) -> float:
        """CPU seconds so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> float:
        """Resident memory in MiB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096 / 2**20


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a program."""

    cpu: float
    rss: float
    latencies: tuple[float, ...]

    def percentile(self, share: float) -> float:
        """Milliseconds from the response to a write until the call of the handler."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3 if ordered else float("nan")


async def measure(name: str, kubeconfig: str, *, latency: bool = True, **environment: str) -> Cost | None:
    """Start a program, wait for its sync, change objects; `None` if it does not sync."""
    environ = {**os.environ, "KUBECONFIG": kubeconfig, "EXPECT": str(OBJECTS), **environment}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / f"{name}.py")],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    program = Program(process)
    threading.Thread(target=program.listen, daemon=True).start()
    try:
        if not await asyncio.to_thread(program.synced.wait, START_TIMEOUT):
            return None
        cpu, rss = program.cpu(), program.rss()
        await asyncio.sleep(0.5)
        return Cost(cpu, max(rss, program.rss()), await latencies(program, kubeconfig) if latency else ())
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def latencies(program: Program, kubeconfig: str) -> tuple[float, ...]:
    """Change objects at a constant rate; return the delay between each response and the program's event."""
    responded: dict[int, float] = {}
    async with Client.connect(kubeconfig, metrics=False) as client:
        first, begun = int(time.time() * 1000) % 10**9 * 1000, time.monotonic()
        for index in range(UPDATES):
            await asyncio.sleep(max(0.0, begun + index / UPDATES_PER_SECOND - time.monotonic()))
            name = f"w-{index * 7 % OBJECTS:06d}"
            await client.patch(WIDGET, name, merge_patch({"spec": {"seq": first + index}}), namespace="load")
            responded[first + index] = time.monotonic()
    await asyncio.sleep(0.5)
    return tuple(program.seen[each] - at for each, at in responded.items() if each in program.seen)


async def compare(kubeconfig: str) -> float:
    """Run the programs and print their costs; return the CPU seconds of Kubewright's."""
    await load(kubeconfig)
    best = [cost for _ in range(2) if (cost := await measure("ours", kubeconfig)) is not None]
    if not best:
        raise RuntimeError("the program of Kubewright did not sync")
    ours = min(best, key=lambda cost: cost.cpu)
    print(f"cache: programs that cache {OBJECTS:,} objects, process start included (ratio to ours)")
    print(f"  {'':<20} {'CPU s':>8} {'':>6} {'RSS MiB':>8} {'':>6} {'response to handler p50/p99 ms':>32}")
    _print("ours", ours, ours)
    for name in PEERS:
        if importlib.util.find_spec(name) is None:
            print(f"  {name:<20} not installed")
            continue
        cost = await measure(name, kubeconfig)
        if cost is None:
            print(f"  {name:<20} did not sync")
        else:
            _print(name, cost, ours)
    await _print_growth(kubeconfig, ours)
    return ours.cpu


def _print(name: str, cost: Cost, ours: Cost) -> None:
    latency = f"{cost.percentile(0.5):.2f} / {cost.percentile(0.99):.2f}"
    print(
        f"  {name:<20} {cost.cpu:>8.2f} {cost.cpu / ours.cpu:>5.1f}x {cost.rss:>8.1f} "
        f"{cost.rss / ours.rss:>5.1f}x {latency:>32}",
        flush=True,
    )


async def _print_growth(kubeconfig: str, ours: Cost) -> None:
    """RSS per object, with two indexes, relative to a program that watches an empty namespace."""
    indexed = await measure("ours", kubeconfig, latency=False, INDEXES="1")
    empty = await measure("ours", kubeconfig, latency=False, NAMESPACE="default")
    if indexed is not None and empty is not None:
        plain, full = ((each.rss - empty.rss) * 1024 / OBJECTS for each in (ours, indexed))
        print(
            f"  ours, empty: {empty.rss:.1f} MiB; per object {plain:.2f} KiB, with two indexes {full:.2f} KiB"
        )
        print("  targets: 0.50 s CPU, 75 MiB, 3.2 KB per object with indexes", flush=True)


async def filled(kubeconfig: str, *, spill: bool = False) -> tuple[Cache, CachedClient]:
    """A synced cache whose watch is stopped, to measure operations in memory or on a file."""
    async with Client.connect(kubeconfig, metrics=False) as live:
        cache = Cache(live, kinds={Widget: KindOptions(spill=spill)})
        cache.add_index(WIDGET, by_label("app"), by_field("spec.image"))
        await cache.start()
        client = CachedClient.from_client(live, cache)
        await client.get(Widget, "w-000100", namespace="load")
        await client.get(WIDGET, "w-000100", namespace="load")
        await (await cache.informer(WIDGET)).stop()
        (usage,) = cache.usage()
        print(f"  {usage.objects:,} objects of {usage.bytes / usage.objects:,.0f} bytes", flush=True)
    return cache, client


def benchmarks() -> list[Benchmark]:
    """Print the comparison; return the benchmarks of reads in memory."""
    with server() as kubeconfig:
        cpu = asyncio.run(compare(kubeconfig))
        cache, client = asyncio.run(filled(kubeconfig))
        spilled, _ = asyncio.run(filled(kubeconfig, spill=True))

    async def get_spilled() -> Widget:
        return await spilled.get(Widget, "w-000100", namespace="load")

    async def get_typed() -> Widget:
        return await cache.get(Widget, "w-000100", namespace="load")

    async def get_client() -> Widget:
        return await client.get(Widget, "w-000100", namespace="load")

    async def get_unstructured() -> Unstructured:
        return await cache.get(WIDGET, "w-000100", namespace="load")

    async def by_index() -> int:
        return len(await cache.list(Widget, namespace="load", labels={"app": "app-7"}))

    async def by_scan() -> int:
        return len(await cache.list(Widget, namespace="load", labels={"tier": "none"}))

    assert asyncio.run(by_index()) == OBJECTS // 1000
    return [
        Benchmark(
            name=f"sync {OBJECTS:,} objects, a process", run=lambda: cpu, target_ms=500, self_timed=True
        ),
        Benchmark(name="cached get, typed", run=get_typed, target_us=25),
        Benchmark(name="cached get, typed, spilled to disk", run=get_spilled, target_us=30),
        Benchmark(name="cached get, typed, through a client", run=get_client),
        Benchmark(name="cached get, unstructured", run=get_unstructured),
        Benchmark(name=f"indexed list, {OBJECTS // 1000} of {OBJECTS:,} typed", run=by_index),
        Benchmark(name=f"list by label without an index, 0 of {OBJECTS:,}", run=by_scan),
    ]
