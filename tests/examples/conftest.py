"""Fixtures: the examples on an in-process API server, or on a real one with `KUBEBUILDER_ASSETS`.

The tests run on fake time (`FakeTimeLoop`): an hour until the next run takes no time. As in envtest no other
controllers run: the tests update statuses themselves (a finished Job), unless they use the fixture `cluster`,
which runs the controllers of the control plane too.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.admissionregistration.v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from kubewright.api.core.v1 import Event, Namespace, ServiceAccount
from kubewright.api.errors import APIError
from kubewright.api.values.times import now as utc_now
from kubewright.client import Client
from kubewright.manager import Operator
from kubewright.manager.manager import ShutdownTimeout
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing.server import server_kinds, start_test_server
from kubewright.testing.time import FakeTimeLoop

EXAMPLES = Path(__file__).parents[2] / "examples"
REAL = server_kinds() == ("real",)

for example in (
    "access_webhook",
    "at",
    "audit_webhook",
    "autoscaler",
    "cloud_provider",
    "cronjob",
    "fleet",
    "foo",
    "guestbook",
    "memcached",
    "network",
    "platform",
    "resource_driver",
    "scheduler_extender",
    "scheduler_plugin",
    "static_site",
    "token_webhook",
):
    sys.path.insert(0, str(EXAMPLES / example))


def pytest_asyncio_loop_factories(config, item):
    """Wait for sockets before fake time advances: webhooks and real servers use them."""
    return {"fake-time": partial(FakeTimeLoop, io_timeout=0.3 if REAL else 0.002)}


class Waited:
    """A transport to another process: fake time does not advance until the response has arrived."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def send(self, *args: Any, **options: Any) -> Any:
        return await self._waited(self._real.send(*args, **options))

    async def stream(self, *args: Any, **options: Any) -> Any:
        return await self._waited(self._real.stream(*args, **options))

    async def _waited(self, request: Any) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FakeTimeLoop)
        loop.threads += 1
        try:
            return await request
        finally:
            loop.threads -= 1


class World:
    """A server, a namespace for the test, and a fake clock."""

    def __init__(self, server: Any, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.client: Client = server.client(namespace=namespace)
        self.installed: set[type[Any]] = set()
        self._began = utc_now()
        self._loop = asyncio.get_running_loop()
        self._zero = self._loop.time()

    def now(self) -> datetime:
        """Return the start time of the test plus the elapsed time of the loop."""
        return self._began + timedelta(seconds=self._loop.time() - self._zero)

    def meta(self, name: str, **more: Any) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=self.namespace, **more)

    async def install(self, operator: Operator) -> None:
        """Install the CRDs of an operator once."""
        missing = [kind for kind in operator.kinds if kind not in self.installed]
        if missing:
            await install_definitions(self.client.with_field_manager(operator.name), operator.kinds)
            self.installed.update(missing)

    @asynccontextmanager
    async def running(
        self, operator: Operator, client: Client | None = None, *, dies: bool = False
    ) -> AsyncIterator[Any]:
        """Run an operator until the block ends; its kinds and webhooks are installed when it begins.

        With `dies` it is cancelled during its work.
        """
        client = client or self.client
        operator.settings.development = True
        operator.settings.graceful_shutdown_timeout = 0.01 if dies else 1.0
        await self.install(operator)
        manager = operator.manager(client)
        stop = asyncio.Event()
        run = asyncio.create_task(manager.run(stop))
        leading = asyncio.create_task(manager.elected.wait())
        await asyncio.wait([run, leading], return_when=asyncio.FIRST_COMPLETED)
        leading.cancel()
        if run.done():
            run.result()
        try:
            yield manager
        finally:
            stop.set()
            with suppress(*([ShutdownTimeout] if dies else [])):
                await run

    async def wait_for(self, kind: Any, name: str, until: Any) -> Any:
        """Wait for an object in the namespace of the test, for ten minutes of fake time."""
        return await self.client.wait(kind, name, namespace=self.namespace, until=until, timeout=600)

    async def wait_for_event(self, reason: str) -> Event:
        """Wait for an Event with a reason."""
        async with self.client.watch(Event, namespace=self.namespace) as changes:
            async for change in changes:
                if change.object.reason == reason:
                    return change.object
        raise AssertionError("the watch ended")


@asynccontextmanager
async def opened(config: Any, *, controllers: bool) -> AsyncIterator[World]:
    async with start_test_server(
        "real" if REAL else "in-process", config, **({} if REAL else {"controllers": controllers})
    ) as server:
        if REAL:
            server.transport = Waited(server.transport)
        namespace = f"test-{uuid.uuid4().hex[:8]}"
        client = server.client()
        await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        if not controllers:
            account = ServiceAccount(metadata=ObjectMeta(name="default", namespace=namespace))
            await client.create(account)
        world = World(server, namespace)
        try:
            yield world
        finally:
            if REAL:
                for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
                    await client.delete_all(kind)
                for kind in world.installed:  # the next test may declare fewer versions of it
                    with suppress(APIError):  # a version that only its operator can convert
                        await client.delete_all(kind, namespace=namespace)


@pytest.fixture
async def world(real_config):
    """An API server without controllers but the example's."""
    async with opened(real_config, controllers=False) as made:
        yield made


@pytest.fixture
async def cluster(real_config):
    """A control plane with its controllers."""
    if REAL:
        pytest.skip("a real API server alone has no garbage collector and no nodes")
    async with opened(None, controllers=True) as made:
        yield made
