"""`kubewright explore`: runs scenarios of an operator with faults at every point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubewright.cli.project_modules import add_project_to_path, relative_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubewright.explore.exploration import Exploration, Progress
    from kubewright.explore.replay import RunToken
    from kubewright.explore.reports.model import ExplorationReport
    from kubewright.explore.run import Run
    from kubewright.explore.scenarios import Scenario


@click.command("explore")
@click.argument("operator", required=False, metavar="[MODULE:OPERATOR]")
@click.option(
    "--scenario",
    "scenario_files",
    multiple=True,
    metavar="FILE|DIR",
    help="Python or YAML file with scenarios, or a directory of them; repeat it for several.",
)
@click.option(
    "--family", "families", multiple=True, metavar="NAME", help="Fault family; repeat it.  [default: all]"
)
@click.option("--seed", default=0, show_default=True, help="Seed of latencies and random values.")
@click.option(
    "--faults",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Maximum number of faults in a run.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    help="Number of runs at the same time.  [default: number of CPUs]",
)
@click.option("--budget-runs", default=0, metavar="N", help="Maximum number of runs.  [default: all]")
@click.option("--budget-seconds", default=0.0, metavar="S", help="Maximum real time.  [default: no limit]")
@click.option("--tolerate", multiple=True, metavar="KIND:FIELD", help="Field that may differ; repeat it.")
@click.option("--upgrade-from", metavar="MODULE:OPERATOR", help="Previous version, for the family upgrade.")
@click.option("--coverage", is_flag=True, help="Print which lines of the operator were reached.")
@click.option("--replay", metavar="FILE|TOKEN", help="Repeat one run instead of exploring.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a replay file for each violation.",
)
@click.option(
    "--command",
    metavar="COMMAND",
    help="Explore a program, such as 'kopf run shop.py', instead of an operator of Kubewright.",
)
@click.option(
    "--quiet-seconds", default=2.0, show_default=True, help="Idle time after which a program has converged."
)
@click.option(
    "--settle-seconds",
    default=90.0,
    show_default=True,
    help="Longest time for a program to reach the expected state after the last step.",
)
@click.option(
    "--specs",
    is_flag=True,
    help="Change every field of the objects that the scenarios apply, instead of injecting faults.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write the report as JSON.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False), help="Write the report as HTML.")
def explore_command(
    operator: str | None,
    scenario_files: tuple[str, ...],
    families: tuple[str, ...],
    seed: int,
    faults: int,
    jobs: int | None,
    budget_runs: int,
    budget_seconds: float,
    tolerate: tuple[str, ...],
    upgrade_from: str | None,
    coverage: bool,
    replay: str | None,
    save: Path | None,
    command: str | None,
    quiet_seconds: float,
    settle_seconds: float,
    specs: bool,
    json_file: str | None,
    html_file: str | None,
) -> None:
    """Find bugs of an operator: run scenarios with a fault at every point.

    The operator runs with a control plane in virtual time. Each scenario is run once without faults, and then
    once for each fault: a crash before and after every write, stale and missed watch events, conflicts,
    timeouts, errors, a lost leader, and so on. A run must keep the invariants of the scenario and end in the
    same state.

    Exit codes: 0 nothing was violated, 1 something was, 2 wrong usage, 3 nothing was violated, but the budget
    left out faults.

    \b
    Example:
      kubewright explore shop:operator --scenario tests/scenarios
      kubewright explore shop:operator --scenario resize.yaml --family crash --family stale
      kubewright explore shop:operator --scenario resize.yaml --replay 'resize?faults=crash-after@w3'
      kubewright explore shop:operator --scenario resize.yaml --specs
      kubewright explore --command 'kopf run shop.py' --scenario create.yaml --budget-seconds 300
    """
    from kubewright.explore.exploration import ExplorationBudget
    from kubewright.explore.explorer import ExplorationError, explore
    from kubewright.explore.factories import FactoryError, ModuleFactory
    from kubewright.explore.families import ALL
    from kubewright.explore.replay import ReplayError
    from kubewright.explore.reports.exploration_report import report_of
    from kubewright.explore.scenario_files import ScenarioError, load_scenarios
    from kubewright.explore.spec_exploration import SpecError, explore_specs

    add_project_to_path()
    if command is not None:
        from .explore_program import explore_program

        given = {
            "MODULE:OPERATOR": operator,
            "--faults": faults > 1,
            "--specs": specs,
            "--coverage": coverage,
            "--upgrade-from": upgrade_from,
        }
        for name in (name for name, value in given.items() if value):
            raise click.UsageError(f"{name} cannot be used with --command")
        with _Status() as status:
            report, code = explore_program(
                command,
                scenario_files,
                families=families,
                jobs=jobs,
                runs=budget_runs,
                seconds=budget_seconds,
                tolerances=tolerate,
                quiet_seconds=quiet_seconds,
                settle_seconds=settle_seconds,
                replay=replay,
                save=save,
                on_progress=status.update,
            )
        _write_reports(report, json_file, html_file)
        _print_report(report)
        sys.exit(code)
    try:
        if replay is not None:
            sys.exit(_replay(replay, operator, scenario_files, tolerate, upgrade_from))
        if not operator:
            raise click.UsageError(
                "the operator is missing: kubewright explore MODULE:OPERATOR --scenario FILE"
            )
        if not scenario_files:
            raise click.UsageError("no scenarios; pass a file or directory with --scenario")
        factory = ModuleFactory(operator)
        factory()
        scenarios = load_scenarios(scenario_files)
        if specs:
            report = explore_specs(
                factory,
                scenarios,
                operator=operator,
                tolerances=tolerate,
                runs=budget_runs,
                seconds=budget_seconds,
            )
            _write_reports(report, json_file, html_file)
            _print_report(report)
            sys.exit(report.exit_code)
        old_factory = ModuleFactory(upgrade_from) if upgrade_from else None
        with _Status() as status:
            result = explore(
                factory,
                scenarios,
                families=families or ALL,
                faults=faults,
                seed=seed,
                jobs=jobs,
                budget=ExplorationBudget(budget_runs, budget_seconds),
                tolerances=tolerate,
                old_factory=old_factory,
                coverage=coverage,
                on_progress=status.update,
            )
    except (ExplorationError, FactoryError, ScenarioError, ReplayError, SpecError) as error:
        raise click.ClickException(relative_paths(error)) from None
    report = report_of(result, operator=operator, scenarios=scenarios, seed=seed)
    _write_reports(report, json_file, html_file)
    if save is not None:
        _save(save, result, operator, upgrade_from or "", scenarios)
    _print_result(result, report)
    sys.exit(report.exit_code)


def _print_report(report: ExplorationReport) -> None:
    from rich.console import Console

    from kubewright.explore.reports.text import print_report

    print_report(report, Console(highlight=False, soft_wrap=True))


def _write_reports(report: ExplorationReport, json_file: str | None, html_file: str | None) -> None:
    if json_file is not None:
        _write(json_file, report.to_json())
    if html_file is not None:
        from kubewright.explore.reports.html import html_of

        _write(html_file, html_of(report))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


class _Status:
    """A line with the progress, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        # Without a thread: the process is forked while this is shown.
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[violations]} violations"),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("reference run", total=None, violations=0)
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> _Status:
        if self._shown:
            self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shown:
            self._progress.stop()

    def update(self, progress: Progress) -> None:
        """Show the current state."""
        if self._shown:
            self._progress.update(
                self._task,
                description=progress.scenario,
                completed=progress.done,
                total=progress.total or None,
                violations=progress.violations,
            )
            self._progress.refresh()


def _print_result(result: Exploration, report: ExplorationReport) -> None:
    """Print the report and the figures."""
    _print_report(report)
    milliseconds = 1000 * result.cpu_seconds / max(result.runs, 1)
    click.echo(f"{milliseconds:.0f} ms CPU per run, {100 * result.fault_coverage:.0f} % of the faults")
    for each in result.coverage:
        click.echo(relative_paths(each))
    for name in result.nondeterministic:
        click.echo(f"warning: the scenario {name} is not deterministic; replays may differ")


def _save(
    directory: Path, result: Exploration, operator: str, old: str, scenarios: Sequence[Scenario]
) -> None:
    """Write a replay file for each violation."""
    from kubewright.explore.replay import Replay
    from kubewright.explore.reports.exploration_report import scenario_file

    directory.mkdir(parents=True, exist_ok=True)
    files = {each.name: scenario_file(each) for each in scenarios}
    for number, each in enumerate(result.violations, 1):
        Replay(
            token=str(each.token),
            operator=operator,
            old_operator=old,
            scenario_file=files[each.scenario],
            finding=f"{each.name}: {each.message}",
            trace_digest=each.run.trace.digest(),
        ).write(directory / f"{number:02}-{each.name}.json")


def _replay(
    text: str,
    operator: str | None,
    scenario_files: tuple[str, ...],
    tolerate: tuple[str, ...],
    upgrade_from: str | None,
) -> int:
    """Repeat one run and print what it violates; return the exit code."""
    from kubewright.explore.factories import ModuleFactory
    from kubewright.explore.replay import Replay, RunToken
    from kubewright.explore.scenario_files import load_scenarios
    from kubewright.explore.testing import replay

    is_file = Path(text).is_file()
    saved = Replay.read(text) if is_file else Replay(token=text)
    if saved.scenario_file and not scenario_files:
        _check_in_project(text, saved.scenario_file)
    operator = operator or saved.operator
    files = scenario_files or ((saved.scenario_file,) if saved.scenario_file else ())
    if not operator or not files:
        raise click.UsageError("a token needs the operator and its scenario: MODULE:OPERATOR --scenario FILE")
    old = upgrade_from or saved.old_operator
    token, scenarios = RunToken.parse(saved.token), load_scenarios(files)
    run, reference = replay(
        ModuleFactory(operator),
        scenarios,
        token,
        tolerances=tolerate,
        old_factory=ModuleFactory(old) if old else None,
    )
    if run.ok:
        click.echo("no violations")
        return 0
    _print_run(run, reference, operator, token, scenarios)
    if saved.trace_digest and saved.trace_digest != run.trace.digest():
        click.echo("the trace differs from the saved one: operator, scenario or Kubewright have changed")
    return 1


def _check_in_project(replay_file: str, named: str) -> None:
    """Raise `click.UsageError` if a replay file names a scenario outside of the current directory.

    A scenario can be a Python module, which is executed, and a replay file can come from another person.
    """
    if not Path(named).resolve().is_relative_to(Path.cwd().resolve()):
        raise click.UsageError(
            f"{replay_file} names {named}, which is not below the current directory and would be executed; "
            "if you trust it, name it yourself: MODULE:OPERATOR --scenario FILE"
        )


def _print_run(
    run: Run, reference: Run, operator: str, token: RunToken, scenarios: Sequence[Scenario]
) -> None:
    """Print what a run violated."""
    from rich.console import Console

    from kubewright.explore.exploration import Exploration, Violation
    from kubewright.explore.reports.exploration_report import report_of
    from kubewright.explore.reports.text import print_violation

    violations = [
        Violation(
            name=each.name,
            message=each.message,
            scenario=token.scenario,
            family="",
            run=run,
            reference=reference,
        )
        for each in run.findings
    ]
    report = report_of(Exploration(violations=violations), operator=operator, scenarios=scenarios)
    for number, each in enumerate(report.violations, 1):
        print_violation(each, Console(highlight=False, soft_wrap=True), number=number)
