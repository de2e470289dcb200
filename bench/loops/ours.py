"""Kubewright: the control loop of `bench/controller.py`. Each Widget gets a ConfigMap and a status."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import time
from typing import Any

import uvloop

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource, set_controller_reference
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import AlreadyExists
from kubewright.cache import Cache, CachedClient, ObjectChange
from kubewright.client import Client
from kubewright.controller import Controller, ControllerBuilder, Request, has_labels

WORKERS = int(os.environ.get("WORKERS", "10"))
LOOP = os.environ.get("LOOP", "1") == "1"


class WidgetSpec(Spec):
    """The fields that the benchmark uses."""

    image: str = ""
    seq: int = 0


class WidgetStatus(Status):
    """Status that the loop writes."""

    phase: str = ""
    observed_generation: int = 0
    config_map: str = ""


@resource(group="bench.example.dev", version="v1")
class Widget(CustomResource[WidgetSpec, WidgetStatus]):
    """A widget."""


def say(event: str, **more: Any) -> None:
    """Print one line for the benchmark process."""
    print(json.dumps({"event": event, "t": time.monotonic(), **more}), flush=True)


class Process:
    """A manager without probes, metrics server and leader election."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self.cache = cache
        self.client = CachedClient.from_client(client, cache).with_field_manager("widgets")
        self.controllers: list[Controller[Any]] = []

    def add(self, controller: Controller[Any]) -> None:
        """Run it later."""
        self.controllers.append(controller)


def build(process: Process) -> None:
    """The controller under test."""
    client = process.client

    async def reconcile(widget: Widget) -> None:
        status = WidgetStatus(
            phase="Ready",
            observed_generation=widget.metadata.generation or 0,
            config_map=f"{widget.metadata.name}-cm",
        )
        if widget.status == status:
            return
        config = ConfigMap(
            metadata=ObjectMeta(name=status.config_map, namespace=widget.metadata.namespace),
            data={"image": widget.spec.image},
        )
        set_controller_reference(widget, config)
        try:
            await client.create(config)
        except AlreadyExists:
            pass
        widget.status = status
        await client.update_status(widget)

    ours = has_labels("loop=1")
    builder: ControllerBuilder[Request] = ControllerBuilder(process).for_(Widget, predicates=[ours])
    builder.owns(ConfigMap).with_options(workers=WORKERS).complete(reconcile)


def build_probe(process: Process) -> None:
    """Report which change of `spec.seq` the reconciler received."""
    seen: dict[Request, int] = {}

    async def probe(widget: Widget) -> None:
        request = Request(widget.metadata.namespace or "", widget.metadata.name or "")
        if widget.spec.seq and seen.get(request) != widget.spec.seq:
            seen[request] = widget.spec.seq
            say("seen", seq=widget.spec.seq)

    def live(change: ObjectChange) -> bool:
        return not change.initial

    builder: ControllerBuilder[Request] = ControllerBuilder(process).for_(Widget, predicates=[live])
    builder.with_options(workers=WORKERS).complete(probe)


async def main() -> None:
    """Run until SIGTERM."""
    gc.set_threshold(50_000, 20, 100)
    started = time.monotonic()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Client.connect(metrics=False) as client, Cache(client) as cache:
        process = Process(client, cache)
        (build if LOOP else build_probe)(process)
        (controller,) = process.controllers
        await controller.warm_up()
        gc.freeze()
        informer = await cache.informer(Widget)
        say("synced", sync_s=time.monotonic() - started, count=len(informer.store))
        await controller.run(stop)


if __name__ == "__main__":
    uvloop.run(main())
