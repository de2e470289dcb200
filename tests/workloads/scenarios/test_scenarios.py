"""Histories of the scenarios with our controllers and scheduler, compared with those of Kubernetes' own.

`data/kubernetes.json` was recorded with kube-controller-manager and kube-scheduler 1.36.4 (see
`kube_components`). `DIFFERENCES` lists what differs, with the reason.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.testing.server import start_test_server

from .kube_components import RECORDED
from .scenarios import NODES, SCENARIOS, Scenario, run_scenario

EXPECTED = json.loads(RECORDED.read_text())
DIFFERENCES: dict[tuple[str, str], str] = {}
"""Reasons, by scenario and part of the history that is not compared."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
async def test_history_is_that_of_kubernetes(scenario: Scenario) -> None:
    async with start_test_server("in-process", nodes=NODES) as server:
        history = await run_scenario(server.client(), scenario)
    expected: dict[str, Any] = EXPECTED[scenario.__name__]
    for part in expected:
        if (scenario.__name__, part) not in DIFFERENCES:
            assert history[part] == expected[part], part
