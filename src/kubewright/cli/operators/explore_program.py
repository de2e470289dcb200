"""`kubewright explore --command`: explores a program that is not an operator of Kubewright."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubewright.explore.exploration import Progress
    from kubewright.explore.foreign.replay import CommandToken
    from kubewright.explore.reports.model import ExplorationReport

JOBS_PER_CPU = 2
"""Runs at the same time by default: they spend most of their time waiting."""
INTERRUPTED = 130
"""Exit code after SIGINT, SIGTERM or SIGHUP, as of a shell."""


def explore_program(
    command: str,
    scenario_files: Sequence[str],
    *,
    families: Sequence[str],
    jobs: int | None,
    runs: int,
    seconds: float,
    tolerances: Sequence[str],
    quiet_seconds: float,
    settle_seconds: float,
    replay: str | None,
    save: Path | None,
    on_progress: Callable[[Progress], None],
) -> tuple[ExplorationReport, int]:
    """Explore a program, or repeat one run; return the report and the exit code."""
    from kubewright.explore.foreign.exploration import FAMILIES, explore_command, replay_command
    from kubewright.explore.foreign.foreign_run import ForeignOptions
    from kubewright.explore.foreign.process import CommandError
    from kubewright.explore.foreign.replay import changed_options, read_token
    from kubewright.explore.replay import ReplayError
    from kubewright.explore.scenario_files import ScenarioError, load_scenarios

    unknown = [each for each in families if each not in FAMILIES]
    if unknown:
        raise click.UsageError(
            f"the fault family {unknown[0]} needs control of the operator's event loop; families for "
            f"programs are: {', '.join(FAMILIES)}"
        )
    if not scenario_files:
        raise click.UsageError("no scenarios; pass a file or directory with --scenario")
    options = ForeignOptions(
        command=command, quiet_seconds=quiet_seconds, settle_seconds=settle_seconds, tolerances=tolerances
    )
    files = " ".join(f"--scenario {shlex.quote(each)}" for each in scenario_files)

    def describe_replay(token: CommandToken, used: ForeignOptions) -> str:
        changed = changed_options(used)
        flags = [f" --tolerate {shlex.quote(each)}" for each in changed.pop("tolerances", ())]
        flags += [f" --{name.replace('_', '-')} {value:g}" for name, value in changed.items()]
        arguments = f"--command {shlex.quote(command)} {files}{''.join(flags)}"
        return f"kubewright explore {arguments} --replay '{token}'"

    async def explore() -> tuple[ExplorationReport, int]:
        if replay is not None:
            report = await replay_command(options, scenarios, read_token(replay), replay=describe_replay)
            return report, 1 if report.violations else 0
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        report = await explore_command(
            options,
            scenarios,
            families=families or tuple(FAMILIES),
            jobs=jobs or JOBS_PER_CPU * (os.cpu_count() or 1),
            runs=runs,
            seconds=seconds,
            stop=stop,
            save=save,
            replay=describe_replay,
            on_progress=on_progress,
        )
        return report, INTERRUPTED if stop.is_set() else report.exit_code

    try:
        scenarios = load_scenarios(scenario_files)
        return asyncio.run(explore())
    except (CommandError, ScenarioError, ReplayError) as error:
        raise click.ClickException(str(error)) from None
