"""A control plane in this process, a cached client of it, and what a builder needs of a manager.

Everything runs in one loop whose time jumps, so waiting takes no time and every run is the same.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api.core.v1 import ConfigMap
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.cache import Cache, CachedClient
from kubewright.client import Client
from kubewright.controlplane import ControlPlane
from kubewright.testing.time import FakeTimeLoop


class Bench:
    """A client, a cache, and runnables that have been added; `running()` runs them."""

    def __init__(self, client: CachedClient, cache: Cache) -> None:
        self.client = client
        self.cache = cache
        self.runnables: list[Any] = []
        self.writes: list[str] = []

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


@pytest.fixture
async def bench():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FakeTimeLoop)
    async with ControlPlane(port=None, auth="always-allow", clock=loop.time) as plane:
        live = Client.over(InProcessTransport(plane.server))
        async with live, Cache(live, allow=[ConfigMap]) as cache:
            made = Bench(None, cache)  # type: ignore[arg-type]

            async def count(call, proceed):
                if call.method in ("POST", "PUT", "PATCH", "DELETE"):
                    made.writes.append(
                        f"{call.verb} {call.resource}{'/' + call.subresource if call.subresource else ''}"
                    )
                return await proceed(call)

            made.client = CachedClient.of(live, cache).intercepted(count)
            yield made
