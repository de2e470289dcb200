"""`kubewright explore --command`: explores a program that is not an operator of Kubewright."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubewright.explore.exploration import Exploration, ExplorationBudget, Progress
    from kubewright.explore.foreign.foreign_run import ForeignOptions
    from kubewright.explore.replay import RunToken
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.scenarios.scenarios import Scenario

JOBS_PER_CPU = 2
"""Runs at the same time by default: they spend most of their time waiting."""


def explore_program(
    options: ForeignOptions,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str],
    jobs: int | None,
    budget: ExplorationBudget,
    on_progress: Callable[[Progress], None],
) -> Exploration:
    """Explore a program; SIGINT, SIGTERM and SIGHUP end the exploration with what was found."""
    from kubewright.explore.families import program_families
    from kubewright.explore.foreign.exploration import explore_command
    from kubewright.explore.foreign.process import CommandError

    unknown = [each for each in families if each not in program_families()]
    if unknown:
        raise click.UsageError(
            f"the fault family {unknown[0]} needs control of the operator's event loop; families for "
            f"programs are: {', '.join(program_families())}"
        )

    async def explore() -> Exploration:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        return await explore_command(
            options,
            scenarios,
            families=families or None,
            jobs=jobs or JOBS_PER_CPU * (os.cpu_count() or 1),
            budget=budget,
            stop=stop,
            on_progress=on_progress,
        )

    try:
        return asyncio.run(explore())
    except CommandError as error:
        raise click.ClickException(str(error)) from None


def replay_program(
    options: ForeignOptions, scenarios: Sequence[Scenario], token: RunToken
) -> tuple[Run, Run]:
    """Repeat one run of a program; return it and its reference run."""
    from kubewright.explore.foreign.process import CommandError
    from kubewright.explore.foreign.replay import replay_command

    try:
        return asyncio.run(replay_command(options, scenarios, token))
    except CommandError as error:
        raise click.ClickException(str(error)) from None
