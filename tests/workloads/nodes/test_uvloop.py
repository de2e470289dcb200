"""Simulated nodes on uvloop, which `kubewright up` uses: its timers that are due have no time."""

from __future__ import annotations

import asyncio

import pytest
from tests.workloads.controllers.conftest import manifest, template

from kubewright.api.apps.v1 import Deployment
from kubewright.client.wait import condition
from kubewright.testing.server import start_test_server


async def roll_out(errors: list[dict[str, object]]) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with start_test_server("in-process", nodes=2) as server:
        client = server.client()
        labels = {"app": "web"}
        spec = {"replicas": 60, "selector": {"matchLabels": labels}, "template": template(labels)}
        await client.create(manifest("Deployment", "web", spec))
        await client.wait(
            Deployment, name="web", namespace="default", until=condition("Available"), timeout=180
        )


def test_rollout() -> None:
    uvloop = pytest.importorskip("uvloop")
    errors: list[dict[str, object]] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(roll_out(errors))
    assert errors == []
