"""`kubewright record`: records what happens in a cluster, to replay it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster
from kubewright.cli.redaction_key import redaction_key_option

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.dashboard import RemoteTraces
    from kubewright.recording import ClusterRecorder

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("record")
@click.argument("file", type=_FILE)
@kubeconfig_options
@click.option(
    "--kinds",
    metavar="NAME,...",
    default="",
    help="Resources to record, such as shops,deployments.apps.  [default: all but Events, Leases, Endpoints]",
)
@click.option("--duration", metavar="DURATION", help="End after this time, such as 10m.  [default: Ctrl-C]")
@click.option(
    "--max-size",
    default=1024,
    show_default=True,
    type=click.IntRange(1),
    help="MiB of uncompressed data after which the recording ends.",
)
@click.option(
    "--operator",
    metavar="URL|REF",
    help="Trace endpoint of an operator, whose reconciles are recorded: a URL such as http://127.0.0.1:8090, "
    "or a port of its pods, deployment/NAMESPACE/NAME:PORT.",
)
@click.option(
    "--operator-token-file",
    type=_FILE,
    help="File with the token of the operator.  [$KUBEWRIGHT_TRACE_TOKEN]",
)
@redaction_key_option
def record_command(
    file: Path,
    kubeconfig: str | None,
    context: str,
    kinds: str,
    duration: str | None,
    max_size: int,
    operator: str | None,
    operator_token_file: Path | None,
    redaction_key: bytes | None,
) -> None:
    """Record the objects of a cluster and their changes to FILE, for `kubewright replay`.

    Only lists and watches are sent; nothing is written to the cluster. Values of Secrets, tokens, passwords,
    environment variables and last-applied annotations are replaced by placeholders before they are written.

    \b
    Example:
      kubewright record --context staging --kinds shops,deployments --duration 10m shop.recording.gz
      kubewright record --operator deployment/shop-system/shop-controller-manager:8090 shop.recording.gz
    """
    from kubewright.api.values.times import duration_nanoseconds
    from kubewright.recording import RecordingError

    try:
        seconds = duration_nanoseconds(duration) / 1e9 if duration is not None else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if seconds is not None and seconds <= 0:
        raise click.UsageError(f"--duration {duration} is not a positive duration such as 10m")
    options = {
        "names": [each.strip() for each in kinds.split(",") if each.strip()],
        "seconds": seconds,
        "max_bytes": max_size << 20,
        "operator": operator,
        "token": _read(operator_token_file) or os.environ.get("KUBEWRIGHT_TRACE_TOKEN", ""),
        "key": redaction_key,
        "source": f"context {context}" if context else "the current context",
    }

    async def run(client: Client) -> None:
        try:
            await _record(client, file, options)
        except RecordingError as error:
            raise click.ClickException(str(error)) from None

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


async def _record(client: Client, file: Path, options: dict[str, Any]) -> None:
    from kubewright.recording import ClusterRecorder, Redactor
    from kubewright.recording.cluster_recorder import select_resources

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    resources = await select_resources(client, options["names"])
    recorder = ClusterRecorder(client, resources, max_bytes=options["max_bytes"])
    traces = _traces(client, recorder, options) if options["operator"] else None
    reading = asyncio.ensure_future(traces.run(stop)) if traces is not None else None
    if reading is not None:
        await _wait_for_operator(recorder, reading, stop)

    def started() -> None:
        until = f"for {options['seconds']:g} s" if options["seconds"] else "until Ctrl-C"
        click.echo(f"recording {recorder.objects} objects of {len(resources)} kinds {until}", err=True)
        if options["seconds"]:
            loop.call_later(options["seconds"], stop.set)

    try:
        await recorder.run(
            file, stop, redactor=Redactor(options["key"]), source=options["source"], on_start=started
        )
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    for note in recorder.notes:
        click.echo(f"Warning: {note}", err=True)
    reconciles = f", {recorder.reconciles} reconciles" if options["operator"] else ""
    click.echo(f"wrote {file}: {recorder.objects} objects, {recorder.changes} changes{reconciles}")


def _traces(client: Client, recorder: ClusterRecorder, options: dict[str, Any]) -> RemoteTraces:
    from kubewright.dashboard import DashboardError, OperatorEndpoint, RemoteTraces, TraceStore

    store = TraceStore()

    def receive(type_: str, record: dict[str, Any]) -> None:
        if store.operators:
            recorder.operator = store.operators[0]
        if type_ == "reconcile":
            recorder.add_reconcile(record)

    store.add_listener(receive)
    try:
        return RemoteTraces(store, OperatorEndpoint(options["operator"], client), options["token"])
    except DashboardError as error:
        raise click.ClickException(str(error)) from None


async def _wait_for_operator(
    recorder: ClusterRecorder, reading: asyncio.Future[None], stop: asyncio.Event
) -> None:
    """Wait until the name of the operator is known; it is in the first line of the file."""
    deadline = asyncio.get_running_loop().time() + 30.0
    while not recorder.operator and not stop.is_set():
        if asyncio.get_running_loop().time() > deadline:
            reading.cancel()
            raise click.ClickException("the operator did not send its name within 30 s; check --operator")
        await asyncio.sleep(0.05)


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{path} does not contain a token") from None
