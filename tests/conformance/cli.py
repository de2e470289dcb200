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
from tests.conformance.exchange import case_text, export_files, import_files
from tests.conformance.generate import generate_cases
from tests.conformance.known import (
    StepID,
    known_differences,
    known_file,
    prune,
    read_known,
    write_known,
)
from tests.conformance.recordings import Recording
from tests.conformance.report import describe, table
from tests.conformance.runner import ServerUnreachable, StepResult, connect, judge
from tests.conformance.servers import NEED_CONTROLLERS, is_in_process, server
from tests.conformance.version_differences import differences_of

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


_version = click.option(
    "--kubernetes-version",
    "version",
    default="",
    metavar="MINOR",
    help="Recordings of this version, such as 1.34, and the version of the in-process control plane; by "
    "default the newest.",
)


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
@_version
def list_command(categories: tuple[str, ...], names: tuple[str, ...], version: str) -> None:
    """List the recorded cases."""
    counts: dict[str, list[int]] = {}
    for case in (each.case for each in _chosen(categories, names, version)):
        click.echo(f"{case.name:<60} {case.recorded_steps:>4} steps  {case.document.get('about', '')}")
        count = counts.setdefault(case.category, [0, 0])
        count[0] += 1
        count[1] += case.recorded_steps
    counts["total"] = [sum(each[0] for each in counts.values()), sum(each[1] for each in counts.values())]
    click.echo()
    for category, (cases, steps) in counts.items():
        click.echo(f"{category:<26}{cases:>6} cases{steps:>7} steps")


@main.command("versions")
@click.option("--level", type=click.IntRange(1, 3), default=2, show_default=True, help="Level of comparison.")
def versions_command(level: int) -> None:
    """List the recorded versions, and what differs from the newest."""
    click.echo(
        f"{'version':<10}{'server':<16}{'cases':>7}{'steps':>8}{'differ':>8}{'in cases':>10}{'missing':>9}"
    )
    for version, server_version in store.recorded_servers().items():
        sizes = store.read_index(version=version).values()
        cases, steps = sum(each.cases for each in sizes), sum(each.steps for each in sizes)
        differing = [each for each in differences_of(version, level=level) if each.steps]
        differ, missing = sum(len(each.steps) for each in differing), len(store.read_missing(version=version))
        click.echo(
            f"{version:<10}{server_version:<16}{cases:>7}{steps:>8}{differ:>8}{len(differing):>10}{missing:>9}"
        )


@main.command("show")
@click.argument("name")
@_version
def show_command(name: str, version: str) -> None:
    """Print one recorded case and its responses."""
    for recording in store.read_all([name.partition("/")[0]], version=version):
        if recording.case.name == name:
            click.echo(case_text(recording.case))
            click.echo(json.dumps(recording.responses, indent=1, sort_keys=True, ensure_ascii=False))
            return
    raise click.ClickException(f"no recording of {name}; `list` shows the names")


@main.command("check")
@_selection
@_version
@_connection
@click.option("--level", type=click.IntRange(1, 3), default=2, show_default=True, help="Level of comparison.")
@click.option("--differing", is_flag=True, help="Only cases that differ from the newest version.")
@click.option("--diff-lines", default=8, show_default=True, help="Differences shown per step.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results to this file.")
@click.option("--known/--no-known", default=True, help="Accept the steps of known_differences.yaml.")
@click.option("--prune-known", is_flag=True, help="Remove steps that pass from known_differences.yaml.")
def check_command(categories: tuple[str, ...], names: tuple[str, ...], **options: Any) -> None:
    """Replay the recorded cases and compare the responses."""
    chosen = _chosen(categories, names, options["version"])
    if options["differing"]:
        changed = {
            each.recording.case.name: each.recording
            for each in differences_of(options["version"], categories, level=options["level"])
            if each.steps
        }
        chosen = [changed[each.case.name] for each in chosen if each.case.name in changed]
    version = options["version"] or next(iter(store.recorded_servers()))
    known = known_differences(version) if options["known"] or options["prune_known"] else {}
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
    stale = sorted(passing & read_known(known_file(version)).keys()) if known else []
    click.echo("\n" + table(steps, known))
    for case, number in stale:
        click.echo(f"stale known difference: {case} step {number}")
    if options["prune_known"]:
        write_known(prune(read_known(known_file(version)), stale), known_file(version))
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
@_version
@_connection
@click.option(
    "--against", required=True, type=click.Path(exists=True), help="Kubeconfig of the other server."
)
@click.option("--level", type=click.IntRange(1, 3), default=2, show_default=True, help="Level of comparison.")
def diff_command(categories: tuple[str, ...], names: tuple[str, ...], **options: Any) -> None:
    """Run the cases on two servers and print how the second differs from the first."""
    chosen = _chosen(categories, names, options["version"])
    sys.exit(_run(_diff([each.case for each in chosen], options)))


@main.command("export")
@_selection
@_version
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def export_command(categories: tuple[str, ...], names: tuple[str, ...], version: str, folder: Path) -> None:
    """Write recordings as cases/*.yaml and golden/*.json, to exchange them."""
    click.echo(f"wrote {export_files(_chosen(categories, names, version), folder)} cases to {folder}")


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--server-version", required=True, help="Version of the server that was recorded, as v1.36.4.")
def import_command(folder: Path, server_version: str) -> None:
    """Store cases/*.yaml and golden/*.json of a folder as recordings."""
    imported = import_files(folder)
    store.write(imported, server_version)
    click.echo(f"imported {len(imported)} cases")


def _sources() -> list[Case]:
    sources = [*load_sources(), *generate_cases()]
    names = [each.name for each in sources]
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise click.ClickException(f"cases with the same name: {', '.join(twice)}")
    return sources


def _chosen(categories: tuple[str, ...], names: tuple[str, ...], version: str = "") -> list[Recording]:
    try:
        recordings = store.read_all(categories, version=version)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
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
            server(
                options["kubeconfig"],
                options["context"],
                controllers=controllers,
                version=options["version"],
            ) as config,
            connect(config, **_connect_options(options)) as runner,
        ):
            async for result in runner.run(each.case for each in group.values()):
                judged(judge(group[result.case.name], result))


async def _record(cases: list[Case], options: dict[str, Any]) -> int:
    recorded: list[Recording] = []
    missing = 0
    async with (
        server(options["kubeconfig"], options["context"]) as config,
        connect(config, **_connect_options(options)) as runner,
    ):
        async for result in runner.run(cases):
            recorded.append(result.as_recording())
            if recorded[-1].missing:
                missing += 1
                click.echo(f"not recorded: {result.case.name}: {recorded[-1].missing}")
        store.write(recorded, runner.version)
    steps = sum(len(each.responses) for each in recorded)
    click.echo(f"{len(recorded) - missing} cases recorded with {steps} steps, {missing} failed")
    return 1 if missing else 0


async def _diff(cases: list[Case], options: dict[str, Any]) -> int:
    first: dict[str, Recording] = {}
    differing = total = 0
    async with (
        server(options["kubeconfig"], options["context"]) as config,
        connect(config, **_connect_options(options)) as runner,
    ):
        async for result in runner.run(cases):
            recording = result.as_recording()
            if recording.missing:
                click.echo(f"not compared: {result.case.name}: {recording.missing}")
            else:
                first[result.case.name] = recording
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
