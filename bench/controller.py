"""Controllers: the queue, reconciles that do nothing, and the loop over a thousand objects.

The loop: for each Widget one ConfigMap that it owns is created and the Widget's status is set, ten workers;
once with Widgets created while it runs (live) and once with all of them created before it starts (backlog).
The programs are in `bench/loops`: Kubewright, kopf, and a manual loop on kubernetes_asyncio. CPU and memory
of the process are read when the last status is set; the CPU of live runs does not include the start.

It runs on `kubewright up`, on a real API server as well if `KUBEBUILDER_ASSETS` is set, or only on
the one of `BENCH_KUBECONFIG`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import json
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
from bench.cache import WIDGET, definition, server, widget
from kubewright.client import Client, merge_patch
from kubewright.controller import Controller, Request, WorkQueue
from kubewright.dashboard import TraceStore
from kubewright.tracing import SpanRecorder, SpanSink

OBJECTS = int(os.environ.get("BENCH_LOOP_OBJECTS", "1000"))
PROGRAMS = Path(__file__).parent / "loops"
PEERS = ("kubernetes_asyncio", "kopf")
UPDATES, UPDATES_PER_SECOND = 200, 100
TIMEOUT = 180.0
TARGETS = {"live": 1.1, "backlog": 1.8}


@dataclass(slots=True)
class Program:
    """A running program and its output."""

    process: subprocess.Popen[str]
    synced: threading.Event = field(default_factory=threading.Event)
    seen: dict[int, float] = field(default_factory=dict)

    @classmethod
    def start(cls, name: str, kubeconfig: str, **environment: str) -> Program:
        """Start one of the programs."""
        process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / f"{name}.py")],
            env={**os.environ, "KUBECONFIG": kubeconfig, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        program = cls(process)
        threading.Thread(target=program.listen, daemon=True).start()
        return program

    def listen(self) -> None:
        """Read its output until it exits."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message["event"] == "synced":
                self.synced.set()
            else:
                self.seen.setdefault(message["seq"], message["t"])

    def cpu(self) -> float:
        """CPU seconds so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> float:
        """Resident memory in MiB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096 / 2**20

    async def in_sync(self) -> None:
        """Wait until it reports that it has synced."""
        if not await asyncio.to_thread(self.synced.wait, TIMEOUT):
            raise RuntimeError("the program did not sync")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one run."""

    cpu: float
    wall: float
    rss: float
    writes: float
    """Versions written per object, its ConfigMap and its creation counted."""


async def prepare(client: Client) -> None:
    """Create the CRD of Widgets, with the status subresource."""
    wanted = definition()
    wanted["spec"]["versions"][0]["subresources"] = {"status": {}}
    await client.apply(wanted, field_manager="bench", force=True)
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(Exception):
                await client.list_raw(WIDGET, limit=1)
                return
            await asyncio.sleep(0.2)


async def create(client: Client, namespace: str) -> None:
    """Create the Widgets, sixteen at a time."""
    numbers = iter(range(OBJECTS))

    async def some() -> None:
        for number in numbers:
            obj = widget(number)
            obj["metadata"].update(namespace=namespace, labels={"loop": "1"})
            await client.create(obj)

    await asyncio.gather(*(some() for _ in range(16)))


async def loop(name: str, kubeconfig: str, *, backlog: bool) -> Cost:
    """One run of a program over fresh objects."""
    async with Client.connect(kubeconfig, metrics=False) as client:
        await prepare(client)
        namespace = f"loop-{time.time_ns() // 1000}"
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        if backlog:
            await create(client, namespace)
        existing = len(await client.list(WIDGET))
        program = Program.start(name, kubeconfig, LOOP="1", EXPECT=str(existing))
        try:
            begun, cpu = time.monotonic(), 0.0
            if not backlog:
                await program.in_sync()
                await asyncio.sleep(1)
                begun, cpu = time.monotonic(), program.cpu()
                await create(client, namespace)
            versions = await _all_ready(client, namespace)
            cost = Cost(program.cpu() - cpu, time.monotonic() - begun, program.rss(), 0.0)
            made = await client.list("configmaps", namespace=namespace)
            owned = sum(1 for each in made if each.raw["metadata"].get("ownerReferences"))
            if owned != OBJECTS:
                raise RuntimeError(f"{name} made {owned} ConfigMaps of {OBJECTS}")
            return Cost(cost.cpu, cost.wall, cost.rss, (owned + versions) / OBJECTS)
        finally:
            program.stop()
            for kind in (WIDGET, "configmaps"):
                for each in (
                    await client.list(kind, namespace=namespace) if name == "kopf" and kind is WIDGET else ()
                ):
                    await client.patch(each, merge_patch({"metadata": {"finalizers": None}}))
                await client.delete_all(kind, namespace=namespace)


async def _all_ready(client: Client, namespace: str) -> int:
    """Wait until every Widget is ready; how many versions of them were written after their creation."""
    ready: set[str] = set()
    listed = await client.list(WIDGET, namespace=namespace)
    changes = 0
    ready.update(each.name for each in listed if (each.raw.get("status") or {}).get("phase") == "Ready")
    changes += len(ready)
    async with asyncio.timeout(TIMEOUT):
        async with client.watch(
            WIDGET, name="", namespace=namespace, resource_version=listed.resource_version
        ) as events:
            if len(ready) == OBJECTS:
                return changes
            async for event in events:
                if event.type == "MODIFIED":
                    changes += 1
                    if (event.object.raw.get("status") or {}).get("phase") == "Ready":
                        ready.add(event.object.name)
                        if len(ready) == OBJECTS:
                            return changes
    return changes


async def latencies(kubeconfig: str) -> list[float]:
    """Seconds from the response to a write until the reconciler is called, sorted."""
    async with Client.connect(kubeconfig, metrics=False) as client:
        await prepare(client)
        namespace = f"latency-{time.time_ns() // 1000}"
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for number in range(UPDATES):
            obj = widget(number)
            obj["metadata"]["namespace"] = namespace
            await client.create(obj)
        program = Program.start("ours", kubeconfig, LOOP="0")
        try:
            await program.in_sync()
            await asyncio.sleep(0.5)
            responded: dict[int, float] = {}
            begun = time.monotonic()
            for number in range(UPDATES):
                await asyncio.sleep(max(0.0, begun + number / UPDATES_PER_SECOND - time.monotonic()))
                change = merge_patch({"spec": {"seq": number + 1}})
                await client.patch(WIDGET, f"w-{number:06d}", change, namespace=namespace)
                responded[number + 1] = time.monotonic()
            await asyncio.sleep(0.5)
        finally:
            program.stop()
            await client.delete_all(WIDGET, namespace=namespace)
    return sorted(max(0.0, program.seen[each] - at) for each, at in responded.items() if each in program.seen)


async def compare(where: str, kubeconfig: str) -> None:
    """Run the programs on a server and print their costs."""
    print(f"controller: {OBJECTS:,} objects, ten workers, on {where} (ratio to ours)")
    print(f"  {'':<22} {'CPU s':>7} {'':>6} {'wall s':>7} {'RSS MiB':>8} {'writes per object':>18}")
    for backlog in (False, True):
        kind = "backlog" if backlog else "live"
        ours = min([await loop("ours", kubeconfig, backlog=backlog) for _ in range(2)], key=lambda c: c.cpu)
        _print(f"ours, {kind}", ours, ours)
        for name in PEERS:
            if importlib.util.find_spec(name) is None:
                print(f"  {name:<22} not installed")
                continue
            _print(f"{name}, {kind}", await loop(name, kubeconfig, backlog=backlog), ours)
        verdict = "" if ours.cpu <= TARGETS[kind] else "  over"
        print(f"  target, {kind}: {TARGETS[kind]:.1f} s CPU, 90 MiB, 2 writes{verdict}", flush=True)
    found = await latencies(kubeconfig)
    shown = " / ".join(f"{found[int(len(found) * share)] * 1e3:.2f}" for share in (0.5, 0.99))
    print(
        f"  response to reconcile p50 / p99: {shown} ms of {len(found)} changes (target 1 / 5 ms)", flush=True
    )


def _print(name: str, cost: Cost, ours: Cost) -> None:
    print(
        f"  {name:<22} {cost.cpu:>7.2f} {cost.cpu / ours.cpu:>5.1f}x {cost.wall:>7.1f} {cost.rss:>8.1f} "
        f"{cost.writes:>18.2f}",
        flush=True,
    )


@contextlib.contextmanager
def servers() -> Iterator[list[tuple[str, str]]]:
    """The servers to measure on: names and kubeconfigs."""
    with contextlib.ExitStack() as stack:
        given = bool(os.environ.get("BENCH_KUBECONFIG"))
        found = [("the server given" if given else "kubewright up", stack.enter_context(server()))]
        if os.environ.get("KUBEBUILDER_ASSETS") and not given:
            from kubewright.testing.server import start_kube_apiserver

            config: Any = stack.enter_context(start_kube_apiserver())
            path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "kubeconfig")
            path.write_text(json.dumps(_kubeconfig(config)))
            found.append(("kube-apiserver", str(path)))
        yield found


def _kubeconfig(config: Any) -> dict[str, Any]:
    authority = base64.b64encode(config.ca.data).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [
            {
                "name": "it",
                "cluster": {"server": config.server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": "it", "user": {"token": config.token}}],
    }


KEYS = [Request("default", f"object-{number}") for number in range(1000)]


async def queue_cycle() -> None:
    """A thousand keys through a queue."""
    queue: WorkQueue[Request] = WorkQueue("bench")
    for key in KEYS:
        queue.add(key)
    for _ in KEYS:
        queue.done((await queue.get()).key)


async def noop_reconciles(sinks: tuple[SpanSink, ...] = ()) -> None:
    """A thousand requests for a reconciler that does nothing, ten workers, metrics and ids included."""
    done = asyncio.Event()
    left = len(KEYS)

    async def reconcile(request: Request) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    controller: Controller[Request] = Controller("bench", reconcile, workers=10, sinks=sinks)
    await controller.warm_up()
    assert controller.queue is not None
    for key in KEYS:
        controller.queue.add(key)
    stop = asyncio.Event()
    running = asyncio.create_task(controller.run(stop))
    await done.wait()
    stop.set()
    await running


async def traced_reconciles() -> None:
    """The same with a dashboard that records the spans."""
    await noop_reconciles((SpanRecorder(TraceStore().add),))


def benchmarks() -> list[Benchmark]:
    """Print the loops; return the benchmarks in memory."""
    with servers() as found:
        for where, kubeconfig in found:
            asyncio.run(compare(where, kubeconfig))
    return [
        Benchmark(name="queue: add, get, done", run=queue_cycle, target_us=6, operations=len(KEYS)),
        Benchmark(
            name="reconcile that does nothing", run=noop_reconciles, target_us=50, operations=len(KEYS)
        ),
        Benchmark(
            name="the same, recorded for a dashboard",
            run=traced_reconciles,
            target_us=80,
            operations=len(KEYS),
        ),
    ]
