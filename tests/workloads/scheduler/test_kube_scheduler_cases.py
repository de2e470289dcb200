"""The recorded results of kube-scheduler 1.36: nodes, conditions and events of our scheduler are the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kubewright.client import Client

from .scenarios import RECORDED, SCENARIOS, Scenario, run_scenario
from .scheduling_objects import start_scheduled_cluster

EXPECTED = json.loads(RECORDED.read_text())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with start_scheduled_cluster() as cluster:
        yield cluster.client


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
async def test_results_are_those_of_kube_scheduler(client: Client, scenario: Scenario) -> None:
    expected = EXPECTED[scenario.name]
    preempted = [name for name, result in expected.items() if result["deleted"]]
    assert await run_scenario(client, scenario, preempted=preempted) == expected
