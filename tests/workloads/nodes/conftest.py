"""Fixtures: an in-process control plane with simulated nodes, in fake time unless a test needs sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workloads.nodes.simulated_cluster import SimulatedCluster, start_cluster

from kubewright.testing.time import FakeTimeLoop

REAL_TIME = (
    "test_kubelet_server",
    "test_kubectl_streams",
    "test_processes",
    "test_process_volumes",
    "test_process_kubectl",
    "test_process_operator",
    "test_process_cleanup",
)


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Any:
    if item.module.__name__.rpartition(".")[2] in REAL_TIME:
        return {"asyncio": asyncio.SelectorEventLoop}
    return {"fake-time": FakeTimeLoop}


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with start_cluster() as started:
        yield started
