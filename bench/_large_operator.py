"""The operator of `bench/large.py`: a cache of one kind and a controller that does nothing.

It reads a `Case` as JSON from its arguments, and prints one line of JSON per phase: CPU seconds of the phase
and the resident memory at its end. After the last phase it waits for lines of a number on standard input, and
prints the CPU of that number of events.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from kubewright.api import CustomResource, Spec, Status, resource
from kubewright.api.errors import BadRequest
from kubewright.api.objects import Struct
from kubewright.cache import Cache, CachedClient, Informer, KindOptions, by_field, by_label
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind, metadata_of
from kubewright.client.listwatch.raw import RawWatch
from kubewright.controller import Controller, ControllerBuilder, Request
from kubewright.manager import Context, Operator
from kubewright.manager.operators.operator_runtime import prepare

CALIBRATION_OBJECTS = 10_000
Runner = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


class Case(msgspec.Struct, kw_only=True):
    """What the operator caches."""

    kubeconfig: str
    pages: bool = False
    """Whether the server is one that cannot send the initial state as watch events."""
    indexes: bool = False
    namespace: str = ""
    labels: str = ""
    metadata_only: bool = False
    projection: bool = False
    spill: str = ""
    """The directory of the spill file."""
    operator: bool = False
    """Whether it is an `Operator` with its manager, instead of a controller alone."""


class Variable(Struct):
    """An environment variable."""

    name: str
    value: str = ""


class WidgetSpec(Spec):
    """The spec of the objects."""

    replicas: int = 0
    image: str = ""
    paused: bool = False
    env: list[Variable] | None = None
    note: str = ""


class WidgetStatus(Status):
    """The status of the objects."""

    ready: int = 0


@resource(group="bench.example.com", version="v1")
class Widget(CustomResource[WidgetSpec, WidgetStatus]):
    """A widget."""


class ImageSpec(Struct):
    """The fields of the spec that are kept."""

    image: str = ""


class Image(Struct):
    """The fields that are kept besides metadata."""

    spec: ImageSpec | None = None


class PagesClient(Client):
    """A client of a server without initial events."""

    async def watch_raw(self, *args: Any, **arguments: Any) -> RawWatch:
        """Reject initial events, as servers before Kubernetes 1.32 do."""
        if arguments.get("send_initial_events"):
            raise BadRequest("sendInitialEvents is not supported")
        return await super().watch_raw(*args, **arguments)


class Process:
    """A manager without probes, metrics server and leader election."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self.cache = cache
        self.client = CachedClient.from_client(client, cache)
        self.controllers: list[Controller[Any]] = []

    def add(self, controller: Controller[Any]) -> None:
        """Run it later."""
        self.controllers.append(controller)


class Phases:
    """Prints the cost of phases."""

    def __init__(self) -> None:
        self._cpu = 0.0

    def end(self, name: str, **figures: float) -> None:
        """Print the CPU since the end of the previous phase."""
        cpu = time.process_time()
        line = {"phase": name, "cpu": cpu - self._cpu, "total": cpu, "rss": _rss(), **figures}
        print(json.dumps(line), flush=True)
        self.restart()

    def restart(self) -> None:
        """Begin a phase now."""
        self._cpu = time.process_time()


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _peak() -> int:
    """The largest resident memory so far; `ru_maxrss` would include that of the parent process."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _options(case: Case) -> KindOptions:
    if case.spill:
        return KindOptions(spill=case.spill)
    return KindOptions(
        labels=case.labels or None,
        namespaces=(case.namespace,) if case.namespace else None,
        metadata_only=case.metadata_only,
        projection=Image if case.projection else None,
        indexes=(by_label("app"), by_field("spec.image")) if case.indexes else (),
    )


def _sample(informer: Informer) -> list[bytes]:
    entries = islice(informer.store.entries(), CALIBRATION_OBJECTS)
    return [entry.raw for _, entry in entries]


class Reconciles:
    """Counts reconciles."""

    def __init__(self) -> None:
        self.count = 0
        self._expected = 0
        self._reached = asyncio.Event()

    def add(self) -> None:
        """Count one."""
        self.count += 1
        if self.count >= self._expected:
            self._reached.set()

    async def wait_for(self, more: int) -> None:
        """Wait for a number of further reconciles, counted from the last call."""
        self._expected += more
        self._reached.clear()
        if self.count < self._expected:
            await self._reached.wait()


async def _build(case: Case, client: Client, reconciles: Reconciles) -> tuple[Cache, Controller[Any], Runner]:
    """Return the cache, the controller, and what runs it."""
    if case.operator:
        operator = Operator("large")
        operator.settings.kinds[Widget] = _options(case)

        @operator.reconcile(Widget, workers=10)
        async def reconcile_object(widget: Widget, ctx: Context[Widget]) -> None:
            reconciles.add()

        manager = (await prepare(operator, client)).manager
        (controller,) = (each for each in manager.runnables if isinstance(each, Controller))
        return manager.cache, controller, manager.run
    cache = Cache(client, kinds={Widget: _options(case)})
    process = Process(client, cache)
    kind: AnyKind = metadata_of(Widget) if case.metadata_only else Widget

    async def reconcile(request: Request) -> None:
        await process.client.get(kind, request.name, namespace=request.namespace)
        reconciles.add()

    builder: ControllerBuilder[Request] = ControllerBuilder(process).for_(kind)
    builder.with_options(workers=10).complete(reconcile)
    return cache, process.controllers[0], process.controllers[0].run


async def main() -> None:
    """Run the phases."""
    case = msgspec.json.decode(sys.argv[1], type=Case)
    gc.set_threshold(50_000, 20, 50)  # as in `kubewright run`
    phases = Phases()
    connect = PagesClient.connect if case.pages else Client.connect
    async with connect(case.kubeconfig, metrics=False) as client:
        reconciles = Reconciles()
        cache, controller, run = await _build(case, client, reconciles)
        await client.mapper.resource_for(Widget)
        phases.end("start")
        await cache.start()
        informer = await cache.informer(metadata_of(Widget) if case.metadata_only else Widget)
        await cache.wait_for_sync()
        objects = len(informer.store)
        phases.end("sync", objects=objects, raw=informer.store.bytes)
        await controller.warm_up()
        phases.end("enqueue")
        stop = asyncio.Event()
        running = asyncio.create_task(run(stop))
        await reconciles.wait_for(objects)
        phases.end("reconcile")
        gc.collect()
        phases.end("idle", peak=_peak())
        sample = _sample(informer)
        phases.restart()
        for raw in sample:
            json.loads(raw)
        phases.end("json.loads", share=len(sample) / max(1, objects))
        del sample
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            waiting = asyncio.create_task(reconciles.wait_for(int(line)))
            await asyncio.sleep(0)
            phases.end("ready")
            await waiting
            phases.end("events")
        stop.set()
        await running
        await cache.stop()


if __name__ == "__main__":
    uvloop.run(main())
