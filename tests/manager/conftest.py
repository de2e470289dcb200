"""Fixtures: an in-process control plane, and fake time for tests without processes and sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.client import Client
from kubewright.testing.server import TestServer, start_test_server
from kubewright.testing.time import FakeTimeLoop

FAKE_TIME = (
    "test_plain_functions",
    "test_services",
    "test_change_handlers",
    "test_causes",
    "test_resync",
    "test_manager",
    "test_leader_election",
    "test_coordinated_election",
    "test_events",
    "test_operator",
    "test_production",
    "test_reported_errors",
    "test_rendered_kinds",
    "test_composed_kinds",
    "test_several_controllers",
    "test_sharded_operators",
    "test_fleet",
    "test_cluster_providers",
)


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    if item.module.__name__.rpartition(".")[2] in FAKE_TIME:
        return {"fake-time": FakeTimeLoop}
    return {"asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("in-process", None, controllers=False) as made:
        yield made


@pytest.fixture
async def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
def running() -> Callable[..., Any]:
    """Run something with `run(stop)` in the background; it is stopped at the end and its error raised."""

    @asynccontextmanager
    async def run(runnable: Any) -> AsyncIterator[asyncio.Task[None]]:
        stop = asyncio.Event()
        task = asyncio.create_task(runnable.run(stop=stop))
        try:
            yield task
        finally:
            stop.set()
            await task

    return run
