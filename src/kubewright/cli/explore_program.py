"""`kubewright explore --command`: explores a program that is not an operator of Kubewright."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubewright.explore.reports.model import ExplorationReport
    from kubewright.explore.run import Run


def explore_program(
    command: str,
    scenario_files: Sequence[str],
    *,
    families: Sequence[str],
    runs: int,
    seconds: float,
    tolerances: Sequence[str],
    quiet_seconds: float,
    replay: str | None,
) -> ExplorationReport:
    """Explore a program, or repeat one run; print and return the report."""
    from rich.console import Console

    from kubewright.explore.foreign.exploration import FAMILIES, explore_command, replay_command
    from kubewright.explore.foreign.foreign_run import ForeignOptions
    from kubewright.explore.foreign.process import CommandError
    from kubewright.explore.replay import ReplayError, RunToken
    from kubewright.explore.reports.model import ExplorationReport
    from kubewright.explore.reports.text import print_report
    from kubewright.explore.scenario_files import ScenarioError, load_scenarios

    unknown = [each for each in families if each not in FAMILIES]
    if unknown:
        raise click.UsageError(
            f"the fault family {unknown[0]} needs control of the operator's event loop; families for "
            f"programs are: {', '.join(FAMILIES)}"
        )
    if not scenario_files:
        raise click.UsageError("no scenarios; pass a file or directory with --scenario")
    options = ForeignOptions(command=command, quiet_seconds=quiet_seconds, tolerances=tolerances)
    files = " ".join(f"--scenario {shlex.quote(each)}" for each in scenario_files)

    def describe_replay(run: Run) -> str:
        token = RunToken(run.scenario, run.faults)
        return f"kubewright explore --command {shlex.quote(command)} {files} --replay '{token}'"

    def show_progress(scenario: str, done: int, total: int, violations: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{scenario}: {done} of {total} faults, {violations} violations", err=True, nl=False)

    async def repeat(text: str) -> ExplorationReport:
        token = RunToken.parse(text)
        scenario = next((each for each in scenarios if each.name == token.scenario), None)
        if scenario is None:
            raise ReplayError(f"there is no scenario {token.scenario!r} in {', '.join(scenario_files)}")
        found = await replay_command(options, scenario, token.faults, replay=describe_replay)
        return ExplorationReport(operator=command, scenarios=[scenario.name], violations=found, runs=2)

    try:
        scenarios = load_scenarios(scenario_files)
        if replay is not None:
            report = asyncio.run(repeat(replay))
        else:
            report = asyncio.run(
                explore_command(
                    options,
                    scenarios,
                    families=families or tuple(FAMILIES),
                    runs=runs,
                    seconds=seconds,
                    replay=describe_replay,
                    on_progress=show_progress,
                )
            )
    except (CommandError, ScenarioError, ReplayError) as error:
        raise click.ClickException(str(error)) from None
    if sys.stderr.isatty():
        click.echo(err=True)
    print_report(report, Console(highlight=False, soft_wrap=True))
    return report
