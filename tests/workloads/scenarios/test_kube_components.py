"""The scenarios with kube-controller-manager and kube-scheduler, if their programs are given."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from .kube_components import BINARIES, start_kube_components
from .scenarios import SCENARIOS, run_scenario
from .test_scenarios import EXPECTED

DIRECTORY = os.environ.get(BINARIES, "")


async def run_all() -> dict[str, Any]:
    async with start_kube_components(Path(DIRECTORY)) as client:
        return {scenario.__name__: await run_scenario(client, scenario) for scenario in SCENARIOS}


@pytest.mark.skipif(
    not DIRECTORY, reason=f"{BINARIES} is not set to a directory with kube-controller-manager"
)
def test_recorded_histories() -> None:
    assert asyncio.run(run_all()) == EXPECTED
