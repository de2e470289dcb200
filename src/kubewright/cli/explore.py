"""`kubewright explore`: runs scenarios of an operator with faults at every point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .project_modules import add_project_to_path, relative_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubewright.explore.explorer import Exploration, Progress, Violation
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
@click.option("--jobs", "-j", default=2, show_default=True, help="Number of runs at the same time.")
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
def explore_command(
    operator: str | None,
    scenario_files: tuple[str, ...],
    families: tuple[str, ...],
    seed: int,
    jobs: int,
    budget_runs: int,
    budget_seconds: float,
    tolerate: tuple[str, ...],
    upgrade_from: str | None,
    coverage: bool,
    replay: str | None,
    save: Path | None,
) -> None:
    """Find bugs of an operator: run scenarios with a fault at every point.

    The operator runs with a control plane in virtual time. Each scenario is run once without faults, and then
    once for each fault: a crash before and after every write, stale and missed watch events, conflicts,
    timeouts, errors, a lost leader, and so on. A run must keep the invariants of the scenario and end in the
    same state. The exit code is 1 if something was violated.

    \b
    Example:
      kubewright explore shop:operator --scenario tests/scenarios
      kubewright explore shop:operator --scenario resize.yaml --family crash --family stale
      kubewright explore shop:operator --scenario resize.yaml --replay 'resize?faults=crash-after@w3'
    """
    from kubewright.explore.explorer import Budget, ExplorationError, explore
    from kubewright.explore.factories import FactoryError, ModuleFactory
    from kubewright.explore.families import ALL
    from kubewright.explore.replay import ReplayError
    from kubewright.explore.scenario_files import ScenarioError, load_scenarios

    add_project_to_path()
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
        old_factory = ModuleFactory(upgrade_from) if upgrade_from else None
        with _Status() as status:
            result = explore(
                factory,
                scenarios,
                families=families or ALL,
                seed=seed,
                jobs=jobs,
                budget=Budget(budget_runs, budget_seconds),
                tolerances=tolerate,
                old_factory=old_factory,
                coverage=coverage,
                on_progress=status.update,
            )
    except (ExplorationError, FactoryError, ScenarioError, ReplayError) as error:
        raise click.ClickException(relative_paths(error)) from None
    _print_result(result, operator, scenarios, save)
    sys.exit(0 if result.ok else 1)


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


def _print_result(
    result: Exploration, operator: str, scenarios: Sequence[Scenario], save: Path | None
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("FAMILY")
    table.add_column("FAULTS", justify="right")
    table.add_column("RUNS", justify="right")
    table.add_column("VIOLATIONS", justify="right")
    for name, points in result.points.items():
        count = sum(each.family == name for each in result.violations)
        table.add_row(name, str(points), str(result.runs_by_family.get(name, 0)), str(count))
    console.print(table)
    console.print(
        f"{result.runs} runs in {result.seconds:.1f} s ({result.runs_per_minute:.0f} per minute, "
        f"{1000 * result.cpu_seconds / max(result.runs, 1):.0f} ms CPU per run), "
        f"{100 * result.fault_coverage:.0f} % of the faults"
    )
    for each in result.coverage:
        console.print(relative_paths(each))
    for name in result.nondeterministic:
        console.print(f"warning: the scenario {name} is not deterministic; replays may differ")
    sources = {each.name: each.source for each in scenarios}
    for number, violation in enumerate(result.violations, 1):
        _print_violation(console, number, violation, operator, sources.get(violation.scenario, ""), save)
    console.print(f"{len(result.violations)} violations" if result.violations else "no violations")


def _print_violation(
    console: Any, number: int, violation: Violation, operator: str, source: str, save: Path | None
) -> None:
    from kubewright.explore.replay import Replay, generated_test

    file = relative_paths(source.rpartition(":")[0] or source)
    token = str(violation.token)
    faults = ", ".join(map(str, violation.faults)) or "no fault"
    console.print(f"\n{number}. {violation.name}: {violation.message}", markup=False)
    console.print(f"   scenario {violation.scenario}, {faults}, {violation.count} runs", markup=False)
    console.print(f"   kubewright explore {operator} --scenario {file} --replay '{token}'", markup=False)
    test = generated_test(violation.token, operator=operator, scenario_file=file, finding=violation.name)
    console.print("\n".join(f"     {line}".rstrip() for line in test.splitlines()), markup=False)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        Replay(
            token=token,
            operator=operator,
            scenario_file=file,
            finding=f"{violation.name}: {violation.message}",
            trace_digest=violation.run.trace.digest(),
        ).write(save / f"{number:02}-{violation.name}.json")


def _replay(
    text: str,
    operator: str | None,
    scenario_files: tuple[str, ...],
    tolerate: tuple[str, ...],
    upgrade_from: str | None,
) -> int:
    """Repeat one run and print its trace; return the exit code."""
    from kubewright.explore.factories import ModuleFactory
    from kubewright.explore.replay import Replay, RunToken
    from kubewright.explore.scenario_files import load_scenarios
    from kubewright.explore.testing import replay

    is_file = Path(text).is_file()
    saved = Replay.read(text) if is_file else Replay(token=text)
    operator = operator or saved.operator
    files = scenario_files or ((saved.scenario_file,) if saved.scenario_file else ())
    if not operator or not files:
        raise click.UsageError("a token needs the operator and its scenario: MODULE:OPERATOR --scenario FILE")
    old = upgrade_from or saved.old_operator
    run, _ = replay(
        ModuleFactory(operator),
        load_scenarios(files),
        RunToken.parse(saved.token),
        tolerances=tolerate,
        old_factory=ModuleFactory(old) if old else None,
    )
    for event in run.trace:
        if event.kind not in ("request", "event", "initial"):
            click.echo(event.line())
    for finding in run.findings:
        click.echo(f"violated {finding}")
    if saved.trace_digest and saved.trace_digest != run.trace.digest():
        click.echo("the trace differs from the saved one: operator, scenario or Kubewright have changed")
    if run.ok:
        click.echo("no violations")
    return 0 if run.ok else 1
