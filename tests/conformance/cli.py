"""Command line: list, show, check, record, diff, export, import."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from tests.conformance import recordings as store
from tests.conformance.case_run import RunOptions
from tests.conformance.cases import Case, load_sources, select
from tests.conformance.generate import generate_cases
from tests.conformance.known import StepID, prune, read_known, write_known
from tests.conformance.recordings import Recording
from tests.conformance.report import describe, table
from tests.conformance.runner import ServerUnreachable, StepResult, connect, judge
from tests.conformance.servers import NEED_CONTROLLERS, is_in_process, server

_F = TypeVar("_F", bound=Callable[..., Any])


def _selection(function: _F) -> _F:
    for option in (
        click.option(
            "--case", "names", multiple=True, metavar="CATEGORY/NAME", help="Only this case; * at the end."
        ),
        click.option("--category", "categories", multiple=True, help="Only this category."),
    ):
        function = option(function)
    return function


def _connection(function: _F) -> _F:
    for option in (
        click.option(
            "--kubeconfig",
            type=click.Path(exists=True, dir_okay=False),
            help="The server; default: see above.",
        ),
        click.option("--context", default="", help="Context of the kubeconfig."),
        click.option("--jobs", default=8, show_default=True, help="Cases at a time."),
        click.option("--timeout", default=30.0, show_default=True, help="Seconds for one request."),
        click.option(
            "--max-wait", default=60.0, show_default=True, help="Longest wait of a step, in seconds."
        ),
        click.option("--keep", is_flag=True, help="Leave created objects on the server."),
        click.option(
            "--webhook-host", default="127.0.0.1", show_default=True, help="Address of this machine."
        ),
    ):
        function = option(function)
    return function


def _connect_options(options: dict[str, Any]) -> dict[str, Any]:
    names = ("jobs", "timeout", "keep", "webhook_host")
    run = RunOptions(max_wait=options["max_wait"])
    return {name: options[name] for name in names} | {"options": run}


@click.group()
def main() -> None:
    """Record the responses of a kube-apiserver, and replay them on another server.

    The server is that of --kubeconfig; without it, kube-apiserver and etcd of $KUBEBUILDER_ASSETS; without
    both, an in-process control plane.
    """


@main.command("list")
@_selection
def list_command(categories: tuple[str, ...], names: tuple[str, ...]) -> None:
    """List the recorded cases."""
    counts: dict[str, list[int]] = {}
    for case in select((each.case for each in store.read_all(categories)), categories, names):
        click.echo(f"{case.name:<60} {case.recorded_steps:>4} steps  {case.document.get('about', '')}")
        count = counts.setdefault(case.category, [0, 0])
        count[0] += 1
        count[1] += case.recorded_steps
    counts["total"] = [sum(each[0] for each in counts.values()), sum(each[1] for each in counts.values())]
    click.echo()
    for category, (cases, steps) in counts.items():
        click.echo(f"{category:<26}{cases:>6} cases{steps:>7} steps")


@main.command("show")
@click.argument("name")
def show_command(name: str) -> None:
    """Print one recorded case and its responses."""
    for recording in store.read_all([name.partition("/")[0]]):
        if recording.case.name == name:
            click.echo(store.case_text(recording.case))
            click.echo(json.dumps(recording.responses, indent=1, sort_keys=True, ensure_ascii=False))
            return
    raise click.ClickException(f"no recording of {name}; `list` shows the names")


@main.command("check")
@_selection
@_connection
@click.option("--level", type=click.IntRange(1, 3), default=2, show_default=True, help="Level of comparison.")
@click.option("--diff-lines", default=8, show_default=True, help="Differences shown per step.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results to this file.")
@click.option("--known/--no-known", default=True, help="Accept the steps of known_differences.yaml.")
@click.option("--prune-known", is_flag=True, help="Remove steps that pass from known_differences.yaml.")
def check_command(categories: tuple[str, ...], names: tuple[str, ...], **options: Any) -> None:
    """Replay the recorded cases and compare the responses."""
    chosen = _chosen(categories, names)
    known = read_known() if options["known"] or options["prune_known"] else {}
    started = time.monotonic()
    steps: list[StepResult] = []

    def judged(results: list[StepResult]) -> None:
        steps.extend(results)
        for step in results:
            if step.level < options["level"] and (step.case, step.step) not in known:
                click.echo(describe(step, options["level"], options["diff_lines"]))

    _run(_check(chosen, options, judged))
    seconds = time.monotonic() - started
    failed = [each for each in steps if each.level < options["level"]]
    unknown = [each for each in failed if (each.case, each.step) not in known]
    passing = {(each.case, each.step) for each in steps if each.level >= 2}
    stale = sorted(passing & known.keys())
    click.echo("\n" + table(steps, known))
    for case, number in stale:
        click.echo(f"stale known difference: {case} step {number}")
    if options["prune_known"]:
        write_known(prune(known, stale))
    if options["json_path"]:
        options["json_path"].write_text(json.dumps(_json_report(steps, known), indent=1) + "\n")
    accepted = len(failed) - len(unknown)
    click.echo(
        f"\nL{options['level']}, {seconds:.1f} s: {len(steps) - len(failed)} passed, {accepted} known, "
        f"{len(unknown)} failed"
    )
    sys.exit(1 if unknown else 0)


@main.command("record")
@_selection
@_connection
@click.option("--missing", is_flag=True, help="Only cases that are not recorded as they are now.")
@click.option("--prune", "prune_removed", is_flag=True, help="Delete recordings of cases that do not exist.")
def record_command(categories: tuple[str, ...], names: tuple[str, ...], **options: Any) -> None:
    """Run the hand-written and generated cases and store the responses of the reference server."""
    existing = {each.case.name: each.case for each in store.read_all()}
    sources = _sources()
    if options["prune_removed"]:
        store.remove(existing.keys() - {each.name for each in sources})
    cases = select(sources, categories, names)
    if options["missing"]:
        cases = [each for each in cases if existing.get(each.name) != each]
    if not cases and not options["prune_removed"]:
        raise click.ClickException("no case matches")
    sys.exit(_run(_record(cases, options)))


@main.command("diff")
@_selection
@_connection
@click.option(
    "--against", required=True, type=click.Path(exists=True), help="Kubeconfig of the other server."
)
@click.option("--level", type=click.IntRange(1, 3), default=2, show_default=True, help="Level of comparison.")
def diff_command(categories: tuple[str, ...], names: tuple[str, ...], **options: Any) -> None:
    """Run the cases on two servers and print how the second differs from the first."""
    chosen = _chosen(categories, names)
    sys.exit(_run(_diff([each.case for each in chosen], options)))


@main.command("export")
@_selection
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def export_command(categories: tuple[str, ...], names: tuple[str, ...], folder: Path) -> None:
    """Write recordings as cases/*.yaml and golden/*.json, to exchange them."""
    click.echo(f"wrote {store.export_files(_chosen(categories, names), folder)} cases to {folder}")


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--server-version", default="", help="Version of the server that was recorded.")
def import_command(folder: Path, server_version: str) -> None:
    """Store cases/*.yaml and golden/*.json of a folder as recordings."""
    imported = store.import_files(folder)
    store.write(imported, server_version)
    click.echo(f"imported {len(imported)} cases")


def _sources() -> list[Case]:
    sources = [*load_sources(), *generate_cases()]
    names = [each.name for each in sources]
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise click.ClickException(f"cases with the same name: {', '.join(twice)}")
    return sources


def _chosen(categories: tuple[str, ...], names: tuple[str, ...]) -> list[Recording]:
    recordings = store.read_all(categories)
    wanted = {each.name for each in select((each.case for each in recordings), categories, names)}
    chosen = [each for each in recordings if each.case.name in wanted]
    if not chosen:
        click.echo("Error: no case matches", err=True)
        sys.exit(2)
    return chosen


def _run(coroutine: Any) -> Any:
    try:
        return asyncio.run(coroutine)
    except ServerUnreachable as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


async def _check(
    chosen: list[Recording], options: dict[str, Any], judged: Callable[[list[StepResult]], None]
) -> None:
    for controllers in (False, True):
        group = {each.case.name: each for each in chosen}
        if is_in_process(options["kubeconfig"]):
            group = {
                name: each
                for name, each in group.items()
                if (each.case.category in NEED_CONTROLLERS) == controllers
            }
        elif controllers:
            return
        if not group:
            continue
        async with (
            server(options["kubeconfig"], options["context"], controllers=controllers) as config,
            connect(config, **_connect_options(options)) as runner,
        ):
            async for result in runner.run(each.case for each in group.values()):
                judged(judge(group[result.case.name], result))


async def _record(cases: list[Case], options: dict[str, Any]) -> int:
    recorded, failed = [], 0
    async with (
        server(options["kubeconfig"], options["context"]) as config,
        connect(config, **_connect_options(options)) as runner,
    ):
        async for result in runner.run(cases):
            try:
                recorded.append(result.as_recording())
            except ValueError as error:
                failed += 1
                click.echo(f"not recorded: {error}")
        store.write(recorded, runner.version)
    steps = sum(len(each.responses) for each in recorded)
    click.echo(f"{len(recorded)} cases recorded with {steps} steps, {failed} failed")
    return 1 if failed else 0


async def _diff(cases: list[Case], options: dict[str, Any]) -> int:
    first: dict[str, Recording] = {}
    differing = total = 0
    async with (
        server(options["kubeconfig"], options["context"]) as config,
        connect(config, **_connect_options(options)) as runner,
    ):
        async for result in runner.run(cases):
            try:
                first[result.case.name] = result.as_recording()
            except ValueError as error:
                click.echo(f"not compared: {error}")
        left = runner.version
    async with (
        server(options["against"]) as config,
        connect(config, **_connect_options(options)) as runner,
    ):
        async for result in runner.run(each.case for each in first.values()):
            steps = judge(first[result.case.name], result)
            total += len(steps)
            for step in steps:
                if step.level < options["level"]:
                    differing += 1
                    click.echo(describe(step, options["level"]))
        click.echo(f"{differing} of {total} steps differ between {left} and {runner.version}")
    return 1 if differing else 0


def _json_report(steps: list[StepResult], known: dict[StepID, str]) -> list[dict[str, Any]]:
    return [
        {
            "case": step.case,
            "step": step.step,
            "label": step.label,
            "level": step.level,
            "known": known.get((step.case, step.step)),
            "differences": [each._asdict() for each in step.differences],
        }
        for step in steps
    ]
