"""`kubewright explore`: runs scenarios of an operator with faults at every point."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubewright.cli.project_modules import add_project_to_path, relative_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kubewright.explore.exploration import Exploration, ExplorationBudget, Progress
    from kubewright.explore.replay import Replay
    from kubewright.explore.reports.model import ExplorationReport
    from kubewright.explore.scenarios.scenarios import Scenario
    from kubewright.explore.subjects import OperatorSubject, ProgramSubject


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
@click.option("--junit", "junit_file", type=click.Path(dir_okay=False), help="Write the report as JUnit XML.")
@click.option("--sarif", "sarif_file", type=click.Path(dir_okay=False), help="Write the report as SARIF.")
@click.option(
    "--baseline",
    "baseline_file",
    type=click.Path(dir_okay=False),
    help="YAML file with accepted violations, which are not reported.",
)
@click.option(
    "--write-baseline",
    "new_baseline",
    type=click.Path(dir_okay=False),
    help="Write a baseline that accepts all violations that were found.",
)
@click.option(
    "--changed-since",
    metavar="REVISION",
    help="Explore scenarios in files that differ from a Git revision first.",
)
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
    junit_file: str | None,
    sarif_file: str | None,
    baseline_file: str | None,
    new_baseline: str | None,
    changed_since: str | None,
) -> None:
    """Find bugs of an operator: run scenarios with a fault at every point.

    The operator runs with a control plane in virtual time. Each scenario is run once without faults, and then
    once for each fault: a crash before and after every write, stale and missed watch events, conflicts,
    timeouts, errors, a lost leader, and so on. A run must keep the invariants of the scenario and end in the
    same state.

    Exit codes: 0 nothing was violated, 1 something was, 2 wrong usage, 3 nothing was violated, but the budget
    or an interruption left out faults.

    \b
    Example:
      kubewright explore shop:operator --scenario tests/scenarios
      kubewright explore shop:operator --scenario resize.yaml --family crash --family stale
      kubewright explore shop:operator --scenario resize.yaml --replay 'resize?faults=crash-after@w3'
      kubewright explore shop:operator --scenario resize.yaml --specs
      kubewright explore --command 'kopf run shop.py' --scenario create.yaml --budget-seconds 300
    """
    from kubewright.explore.baseline import Baseline, BaselineError
    from kubewright.explore.exploration import ExplorationBudget
    from kubewright.explore.explorer import ExplorationError
    from kubewright.explore.replay import ReplayError
    from kubewright.explore.reports.exploration_report import report_of, save_replays, scenario_file
    from kubewright.explore.scenarios.scenario_files import ScenarioError, load_scenarios
    from kubewright.explore.simulation.factories import FactoryError, ModuleFactory
    from kubewright.explore.specs.spec_exploration import SpecError, explore_specs

    add_project_to_path()
    files = {"json": json_file, "html": html_file, "junit": junit_file, "sarif": sarif_file}
    budget = ExplorationBudget(budget_runs, budget_seconds)
    try:
        if replay is not None:
            saved = _read_replay(replay, scenario_files)
            operator, command = operator or saved.operator, command or saved.command or None
            upgrade_from = upgrade_from or saved.old_operator
            scenario_files = scenario_files or tuple(filter(None, (saved.scenario_file,)))
            if not (operator or command) or not scenario_files:
                raise click.UsageError(
                    "a token needs the operator and its scenario: MODULE:OPERATOR --scenario FILE"
                )
        if command is not None:
            given = {
                "MODULE:OPERATOR": operator,
                "--faults": faults > 1,
                "--specs": specs,
                "--coverage": coverage,
                "--upgrade-from": upgrade_from,
            }
            for name in (name for name, value in given.items() if value):
                raise click.UsageError(f"{name} cannot be used with --command")
        elif not operator:
            raise click.UsageError(
                "the operator is missing: kubewright explore MODULE:OPERATOR --scenario FILE"
            )
        if not scenario_files:
            raise click.UsageError("no scenarios; pass a file or directory with --scenario")
        subject = _subject(operator, upgrade_from, command, quiet_seconds, settle_seconds, tolerate)
        if operator:
            ModuleFactory(operator)()
        baseline = Baseline.read(baseline_file) if baseline_file is not None else Baseline()
        scenarios = load_scenarios(scenario_files)
        if changed_since is not None:
            changed = _changed_files(changed_since)
            scenarios.sort(key=lambda each: Path(scenario_file(each)).resolve() not in changed)
        if replay is not None:
            sys.exit(_replay(saved, subject, scenarios, tolerate))
        if specs:
            assert operator is not None
            report = explore_specs(
                ModuleFactory(operator),
                scenarios,
                operator=operator,
                tolerances=tolerate,
                runs=budget_runs,
                seconds=budget_seconds,
            )
            _write_reports(report, files)
            _print_report(report)
            sys.exit(report.exit_code)
        with _Status() as status:
            result = _explore(
                subject,
                scenarios,
                families=families,
                faults=faults,
                seed=seed,
                jobs=jobs,
                budget=budget,
                tolerances=tolerate,
                coverage=coverage,
                on_progress=status.update,
            )
    except (BaselineError, ExplorationError, FactoryError, ScenarioError, ReplayError, SpecError) as error:
        raise click.ClickException(relative_paths(error)) from None
    if new_baseline is not None:
        _write(new_baseline, Baseline.of(result))
    baseline.apply(result)
    report = report_of(result, subject, scenarios=scenarios, seed=seed)
    _write_reports(report, files)
    if save is not None:
        save_replays(save, result, subject, scenarios=scenarios)
    _print_report(report)
    _print_figures(result)
    sys.exit(report.exit_code)


def _subject(
    operator: str | None,
    old_operator: str | None,
    command: str | None,
    quiet_seconds: float,
    settle_seconds: float,
    tolerances: Sequence[str],
) -> OperatorSubject | ProgramSubject:
    """Return what is explored."""
    from kubewright.explore.foreign.foreign_run import ForeignOptions
    from kubewright.explore.subjects import OperatorSubject, ProgramSubject

    if command is None:
        return OperatorSubject(name=operator or "", old_operator=old_operator or "")
    return ProgramSubject(
        options=ForeignOptions(
            command=command,
            quiet_seconds=quiet_seconds,
            settle_seconds=settle_seconds,
            tolerances=tolerances,
        )
    )


def _explore(
    subject: OperatorSubject | ProgramSubject,
    scenarios: Sequence[Scenario],
    *,
    families: Sequence[str],
    faults: int,
    seed: int,
    jobs: int | None,
    budget: ExplorationBudget,
    tolerances: Sequence[str],
    coverage: bool,
    on_progress: Callable[[Progress], None],
) -> Exploration:
    """Explore; a signal that would end the command ends it with a report of what was explored."""
    from kubewright.explore.explorer import Interrupt, explore
    from kubewright.explore.simulation.factories import ModuleFactory
    from kubewright.explore.subjects import ProgramSubject

    if isinstance(subject, ProgramSubject):
        from .explore_program import explore_program

        return explore_program(
            subject.options, scenarios, families=families, jobs=jobs, budget=budget, on_progress=on_progress
        )
    interrupt = Interrupt()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = {each: signal.signal(each, interrupt) for each in signals}
    try:
        return explore(
            ModuleFactory(subject.name),
            scenarios,
            families=families or None,
            faults=faults,
            seed=seed,
            jobs=jobs,
            budget=budget,
            tolerances=tolerances,
            old_factory=ModuleFactory(subject.old_operator) if subject.old_operator else None,
            coverage=coverage,
            on_progress=on_progress,
            interrupt=interrupt,
        )
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _print_report(report: ExplorationReport) -> None:
    from rich.console import Console

    from kubewright.explore.reports.text import print_report

    print_report(report, Console(highlight=False, soft_wrap=True))


def _write_reports(report: ExplorationReport, files: Mapping[str, str | None]) -> None:
    """Write a report to the files of its formats."""
    from kubewright.explore.reports.html import html_of
    from kubewright.explore.reports.junit import junit_of
    from kubewright.explore.reports.sarif import sarif_of

    formats = {"html": html_of, "junit": junit_of, "sarif": sarif_of}
    for name, path in files.items():
        if path is not None:
            _write(path, report.to_json() if name == "json" else formats[name](report))


def _changed_files(revision: str) -> set[Path]:
    """Return the files that differ from a Git revision, or are not tracked."""
    root = Path(_git("rev-parse", "--show-toplevel").strip())
    names = _git("diff", "--name-only", "-z", "--end-of-options", revision, "--")
    names += _git("ls-files", "--others", "--exclude-standard", "--full-name", "-z")
    return {(root / each).resolve() for each in names.split("\0") if each}


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a revision follows --end-of-options
            ["git", *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise click.ClickException(f"cannot run git: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it failed"]
        raise click.ClickException(f"git {arguments[0]}: {lines[-1]}")
    return done.stdout


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


def _print_figures(result: Exploration) -> None:
    """Print what else is known about the runs of an operator."""
    if result.cpu_seconds:
        milliseconds = 1000 * result.cpu_seconds / max(result.runs, 1)
        click.echo(f"{milliseconds:.0f} ms CPU per run, {100 * result.fault_coverage:.0f} % of the faults")
    for each in result.coverage:
        click.echo(relative_paths(each))
    for name in result.nondeterministic:
        click.echo(f"warning: the scenario {name} is not deterministic; replays may differ")
    for found in result.warnings:
        click.echo(f"warning: {found.name}: {found.message} ({found.count} runs, replay: {found.token})")


def _read_replay(text: str, scenario_files: tuple[str, ...]) -> Replay:
    """Return the content of a replay file, or a token."""
    from kubewright.explore.replay import Replay

    if not Path(text).is_file():
        return Replay(token=text)
    saved = Replay.read(text)
    if saved.scenario_file and not scenario_files:
        _check_in_project(text, saved.scenario_file)
    return saved


def _replay(
    saved: Replay,
    subject: OperatorSubject | ProgramSubject,
    scenarios: Sequence[Scenario],
    tolerances: tuple[str, ...],
) -> int:
    """Repeat one run and print what it violates; return the exit code."""
    from rich.console import Console

    from kubewright.explore.exploration import Exploration
    from kubewright.explore.replay import RunToken
    from kubewright.explore.reports.exploration_report import report_of
    from kubewright.explore.reports.text import print_violation
    from kubewright.explore.simulation.factories import ModuleFactory
    from kubewright.explore.subjects import ProgramSubject
    from kubewright.explore.testing import replay

    token = RunToken.parse(saved.token)
    if isinstance(subject, ProgramSubject):
        from .explore_program import replay_program

        run, reference = replay_program(subject.options, scenarios, token)
    else:
        old = subject.old_operator
        run, reference = replay(
            ModuleFactory(subject.name),
            scenarios,
            token,
            tolerances=tolerances,
            old_factory=ModuleFactory(old) if old else None,
        )
    if run.ok:
        click.echo("no violations")
        return 0
    result = Exploration()
    for each in run.findings:
        result.add_finding(each, run, reference, tolerances=tolerances)
    report = report_of(result, subject, scenarios=scenarios)
    for number, violation in enumerate(report.violations, 1):
        print_violation(violation, Console(highlight=False, soft_wrap=True), number=number)
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
