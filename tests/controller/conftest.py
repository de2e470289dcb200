"""Fixtures: an in-process control plane, a cached client, and the manager protocol of `ControllerBuilder`.

Everything runs in one loop whose time jumps, so waiting takes no time and every run is the same.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api import CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.cache import Cache, CachedClient
from kubewright.client import Client
from kubewright.client.discovery.rest_mapper import RESTMapper
from kubewright.controlplane import ControlPlane
from kubewright.manifests import crd
from kubewright.testing.time import FakeTimeLoop


class ShopSpec(Spec):
    size: int = 1
    address: str = ""


class ShopStatus(Status):
    ready: int = 0


@resource(group="example.com", version="v1")
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """A shop."""


class Bench:
    """A client, a cache, and runnables that have been added; `running()` runs them."""

    def __init__(self, client: CachedClient, cache: Cache) -> None:
        self.client = client
        self.cache = cache
        self.runnables: list[Any] = []
        self.writes: list[str] = []
        self.Shop = Shop
        self.ShopSpec = ShopSpec
        self.ShopStatus = ShopStatus

    async def install(self, *kinds: type[Any]) -> None:
        """Install the CRDs of kinds."""
        for kind in kinds:
            await self.client.create(crd(kind))

    async def shop(self, name: str, size: int = 1, **metadata: Any) -> Shop:
        return await self.client.create(
            Shop(metadata=ObjectMeta(name=name, namespace="default", **metadata), spec=ShopSpec(size=size))
        )

    def add(self, runnable: Any) -> None:
        self.runnables.append(runnable)

    @asynccontextmanager
    async def running(self):
        stop = asyncio.Event()
        tasks = [asyncio.create_task(runnable.run(stop)) for runnable in self.runnables]
        try:
            for runnable in self.runnables:
                waiting = asyncio.create_task(getattr(runnable, "controller", runnable).wait_ready())
                await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    async def settled(self) -> None:
        """Wait until no queue has anything ready or in work."""
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0.001)
            queues = [getattr(each, "controller", each).queue for each in self.runnables]
            quiet = (
                0
                if any(queue is not None and (len(queue) or queue.locked) for queue in queues)
                else quiet + 1
            )


def pytest_asyncio_loop_factories(config, item):
    return {"fake-time": FakeTimeLoop}


@asynccontextmanager
async def opened(clock):
    async with ControlPlane(port=None, auth="always-allow", clock=clock) as plane:
        over = Client.from_transport(InProcessTransport(plane.server))
        live = Client(over.rest, RESTMapper(over.rest, clock=clock), over.options)
        async with live, Cache(live, allow=[ConfigMap]) as cache:
            made = Bench(None, cache)  # type: ignore[arg-type]

            async def count(call, proceed):
                if call.method in ("POST", "PUT", "PATCH", "DELETE"):
                    part = f"/{call.subresource}" if call.subresource else ""
                    made.writes.append(f"{call.verb} {call.resource}{part}")
                return await proceed(call)

            made.client = CachedClient.from_client(live, cache).with_interceptor(count)
            yield made


@pytest.fixture
async def bench():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FakeTimeLoop)
    async with opened(loop.time) as made:
        yield made


@pytest.fixture
def bench_with_real_time():
    """Run on real time: fake time does not advance while a thread runs."""

    def run(scenario):
        async def main():
            async with opened(time.monotonic) as made:
                await scenario(made)

        asyncio.run(main())

    return run
