"""`kubewright replay`: runs an operator on a recording."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.project_modules import add_project_to_path

if TYPE_CHECKING:
    from kubewright.explore.simulation.factories import ModuleFactory
    from kubewright.recording import Recording
    from kubewright.rehearse.replays import ReplayedRecording, ReplayViolation

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("replay")
@click.argument("file", type=_FILE)
@click.argument("operator", metavar="MODULE:OPERATOR")
@click.option(
    "--field-manager",
    "managers",
    multiple=True,
    help="Field manager of the recorded operator, if it has another name; can be repeated.",
)
@click.option("--to-test", type=_FILE, help="Write a pytest module with what is needed to violate a check.")
@click.option("--check", help="The check of --to-test.  [default: the first that is violated]")
@click.option("--html", "html_file", type=_FILE, help="Write a page with a time slider.")
@click.option(
    "--json", "json_file", type=_FILE, help="Write the moments of the replay as JSON; - prints them."
)
@click.option("--explore", is_flag=True, help="Explore faults, starting at a moment of the recording.")
@click.option(
    "--at", default=0.0, metavar="SECONDS", help="Moment of --explore, since the start of the recording."
)
@click.option("--max-runs", default=0, type=click.IntRange(0), help="Limit of the runs of --explore.")
def replay_command(
    file: Path,
    operator: str,
    managers: tuple[str, ...],
    to_test: Path | None,
    check: str | None,
    html_file: Path | None,
    json_file: Path | None,
    explore: bool,
    at: float,
    max_runs: int,
) -> None:
    """Run an operator on a recording, with its timing in virtual time.

    The changes of other clients are repeated; those of the recorded operator are not, because this version
    makes its own. The output shows where it acts differently, and what it violates: a hot loop, a failing
    reconcile, a finalizer that is not removed, an object that is not restored.

    Exit codes: 0 nothing is violated, 1 a check is violated, or an error.

    \b
    Example:
      kubewright replay shop.recording.gz shop:operator
      kubewright replay shop.recording.gz shop:operator --html replay.html
      kubewright replay shop.recording.gz shop:operator --to-test tests/test_incident.py
      kubewright replay shop.recording.gz shop:operator --explore --at 90
    """
    from kubewright.explore.simulation.factories import FactoryError, ModuleFactory
    from kubewright.recording import RecordingError, read_recording
    from kubewright.rehearse import replay_recording
    from kubewright.rehearse.replays import CHECKS
    from kubewright.rehearse.replays.text import replay_text

    if check is not None and check not in CHECKS:
        raise click.UsageError(f"unknown check {check!r}; expected one of {', '.join(CHECKS)}")
    add_project_to_path()
    try:
        recording = read_recording(file)
        factory = ModuleFactory(operator)
        factory()
    except (RecordingError, FactoryError) as error:
        raise click.ClickException(str(error)) from None
    if explore:
        sys.exit(_explore(recording, factory, at=at, managers=managers, max_runs=max_runs))
    replay = replay_recording(recording, factory, managers=managers)
    if str(json_file) != "-":
        for line in replay_text(replay):
            click.echo(line)
    _write_reports(replay, html_file, json_file)
    if to_test is not None:
        _write_test(replay, factory, to_test, check, managers)
    sys.exit(0 if replay.ok else 1)


def _write_reports(replay: ReplayedRecording, html_file: Path | None, json_file: Path | None) -> None:
    from kubewright.cli.project_deployment import write_file
    from kubewright.rehearse.replays.html import html_of
    from kubewright.rehearse.replays.moments import moments_of

    if html_file is None and json_file is None:
        return
    document = moments_of(replay)
    if html_file is not None:
        write_file(html_file, html_of(document))
        click.echo(f"wrote {html_file}", err=True)
    if json_file is not None and str(json_file) == "-":
        click.echo(json.dumps(document))
    elif json_file is not None:
        write_file(json_file, json.dumps(document))
        click.echo(f"wrote {json_file}", err=True)


def _write_test(
    replay: ReplayedRecording,
    factory: ModuleFactory,
    path: Path,
    check: str | None,
    managers: tuple[str, ...],
) -> None:
    from kubewright.cli.project_deployment import write_file
    from kubewright.rehearse import replay_recording
    from kubewright.rehearse.replays import Shrinker, create_pytest_module

    def find(result: ReplayedRecording) -> ReplayViolation | None:
        wanted = violation.check if violation is not None else check
        return next((each for each in result.violations if wanted in (None, each.check)), None)

    violation: Any = None
    violation = find(replay)
    if violation is None:
        what = f"the check {check}" if check is not None else "a check"
        raise click.ClickException(f"this version does not violate {what}; there is nothing to write")
    shrinker = Shrinker(lambda each: find(replay_recording(each, factory, managers=managers)) is not None)
    recording = shrinker.shrink(replay.recording, violation.object)
    left = find(replay_recording(recording, factory, managers=managers)) or violation
    source = create_pytest_module(recording, factory.reference, left, managers=managers)
    write_file(path, source)
    click.echo(
        f"wrote {path}: {len(recording.objects)} of {len(replay.recording.objects)} objects and "
        f"{len(recording.changes)} of {len(replay.recording.changes)} changes violate {left.check} "
        f"({shrinker.replays} replays)"
    )


def _explore(
    recording: Recording, factory: ModuleFactory, *, at: float, managers: tuple[str, ...], max_runs: int
) -> int:
    from kubewright.explore import ExplorationBudget, explore
    from kubewright.explore.testing import describe
    from kubewright.rehearse.replays.exploration import scenario_of

    scenario = scenario_of(recording, factory(), at=at, managers=managers)
    click.echo(f"exploring from {at:g} s: {len(scenario.setup)} objects", err=True)
    result = explore(factory, [scenario], budget=ExplorationBudget(runs=max_runs))
    for violation in result.violations:
        click.echo(describe(violation))
    for note in result.notes:
        click.echo(f"note: {note}")
    click.echo(f"{result.runs} runs, {len(result.violations)} violations")
    return 0 if result.ok else 1
