"""Replay of a run of a program, and `check_command` for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubewright.explore.replay import ReplayError, RunToken, check_reached, find_scenario, located

from .foreign_run import ForeignOptions, run_command

if TYPE_CHECKING:
    from kubewright.explore.scenarios.scenarios import Scenario

    from .foreign_run import ProgramRun


async def replay_command(
    options: ForeignOptions, scenarios: Sequence[Scenario], token: RunToken
) -> tuple[ProgramRun, ProgramRun]:
    """Repeat the run of a token; return it and its reference run.

    Raises `ReplayError` if a fault of the token was not injected, because the run does not reach its point.
    """
    scenario = find_scenario(scenarios, token.scenario)
    reference = await run_command(options, scenario, skip=token.skip)
    if not token.faults or reference.findings:
        return reference, reference
    for each in token.faults:
        if not each.name and each.event_in(reference.trace) is None:
            raise ReplayError(f"the reference run has no point {each.point}")
    faults = located(token.faults, reference)
    run = await run_command(options, scenario, faults=faults, reference=reference, skip=token.skip)
    check_reached(run, reference)
    return run, reference


def check_command(options: ForeignOptions, scenarios: Sequence[Scenario], token: str) -> None:
    """Repeat the run of a token, and raise `AssertionError` with what it violates."""
    run, _ = asyncio.run(replay_command(options, scenarios, RunToken.parse(token)))
    if not run.ok:
        raise AssertionError("; ".join(map(str, run.findings)))
