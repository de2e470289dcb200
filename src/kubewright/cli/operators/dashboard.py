"""`kubewright dashboard`: serves the dashboard of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options

from .dashboard_options import AddressPrinter, context_name, ignore_warning

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.dashboard import Dashboard, RemoteTraces, TraceStore

_FILE = click.Path(dir_okay=False, path_type=Path)
_PORT = click.IntRange(0, 65535)


@click.command("dashboard")
@kubeconfig_options
@click.option("--read-only", is_flag=True, help="Reject changes, exec and port-forward.")
@click.option("--port", default=0, show_default="a free port", type=_PORT, help="Port to listen on.")
@click.option(
    "--bind",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; others than loopback need TLS.",
)
@click.option("--host", "hosts", multiple=True, help="Name under which browsers reach it; can be repeated.")
@click.option("--tls-cert", type=_FILE, help="Certificate (PEM) to serve over TLS.")
@click.option("--tls-key", type=_FILE, help="Key (PEM) of the certificate.")
@click.option(
    "--operator",
    metavar="URL|REF",
    help="Trace endpoint of an operator: a URL such as http://127.0.0.1:8090, or a port of its pods, "
    "deployment/NAMESPACE/NAME:PORT.",
)
@click.option(
    "--operator-token-file",
    type=_FILE,
    help="File with the token of the operator.  [$KUBEWRIGHT_TRACE_TOKEN]",
)
@click.option("--open/--no-open", "opens", default=False, help="Open the address in the browser.")
def dashboard_command(**options: Any) -> None:
    """Serve a web dashboard of a cluster until Ctrl-C.

    The command prints an address that works once; it prints another when that one was used. The dashboard
    has the permissions of the user of the kubeconfig, whose credentials never reach the browser.

    Reconciles are shown for an operator with a trace endpoint (`kubewright run --trace-port`), or in the
    dashboard of `kubewright run --dashboard`.

    \b
    Example:
      kubewright dashboard
      kubewright dashboard --context kind-kind --read-only
      kubewright dashboard --operator deployment/shop-system/shop-controller-manager:8090
    """
    from kubewright.client import load_config
    from kubewright.client.errors import ConfigError
    from kubewright.manager.observability import logs

    logs.setup("console" if sys.stderr.isatty() else "json", "WARNING")
    try:
        config = load_config(options["kubeconfig"], context=options["context"])
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(config, options))


async def _serve(config: Any, options: dict[str, Any]) -> None:
    from kubewright.api.errors import APIError
    from kubewright.client import Client
    from kubewright.client.errors import ConnectionFailed, CredentialsError
    from kubewright.client.rest.retry_policy import RetryPolicy
    from kubewright.dashboard import ClusterName, Dashboard, DashboardError, TraceStore

    gc.set_threshold(50_000, 20, 50)
    # Watches retry by themselves; an unreachable cluster is reported immediately.
    retries = RetryPolicy(transient_attempts=0)
    async with Client.connect(config, metrics=False, retries=retries, on_warning=ignore_warning) as client:
        try:
            await client.version()
        except (APIError, ConnectionFailed, CredentialsError, TimeoutError) as error:
            raise click.ClickException(f"cannot reach the cluster of {config.source}: {error}") from None
        try:
            traces = TraceStore()
            remote = _remote_traces(client, traces, options)
            dashboard = Dashboard(
                client,
                traces=traces,
                bind=options["bind"],
                port=options["port"],
                read_only=options["read_only"],
                cluster=ClusterName(server=config.server, context=context_name(config.source)),
                hosts=options["hosts"],
                certificate=options["tls_cert"],
                key=options["tls_key"],
                on_address=AddressPrinter(opens=options["opens"]),
            )
            await _run(dashboard, remote)
        except DashboardError as error:
            raise click.ClickException(str(error)) from None


def _remote_traces(client: Client, traces: TraceStore, options: dict[str, Any]) -> RemoteTraces | None:
    from kubewright.dashboard import OperatorEndpoint, RemoteTraces

    if not options["operator"]:
        return None
    token = os.environ.get("KUBEWRIGHT_TRACE_TOKEN", "")
    if options["operator_token_file"] is not None:
        try:
            token = options["operator_token_file"].read_text().strip()
        except OSError as error:
            raise click.ClickException(f"{options['operator_token_file']}: {error.strerror}") from None
    return RemoteTraces(traces, OperatorEndpoint(options["operator"], client), token)


async def _run(dashboard: Dashboard, remote: RemoteTraces | None) -> None:
    """Serve until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reading = asyncio.create_task(remote.run(stop)) if remote is not None else None
    try:
        await dashboard.run(stop)
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
