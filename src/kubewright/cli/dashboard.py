"""`kubewright dashboard`: serves the dashboard of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kubewright.dashboard import Dashboard

_FILE = click.Path(dir_okay=False, path_type=Path)
_PORT = click.IntRange(0, 65535)


@click.command("dashboard")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="Kubeconfig file.  [default: $KUBECONFIG, ~/.kube/config]",
)
@click.option("--context", default="", help="Context of the kubeconfig.  [default: current-context]")
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
@click.option("--open/--no-open", "opens", default=False, help="Open the address in the browser.")
def dashboard_command(**options: Any) -> None:
    """Serve a web dashboard of a cluster until Ctrl-C.

    The command prints an address that works once; it prints another when that one was used. The dashboard
    has the permissions of the user of the kubeconfig, whose credentials never reach the browser.

    \b
    Example:
      kubewright dashboard
      kubewright dashboard --context kind-kind --read-only
    """
    from kubewright.client import load_config
    from kubewright.client.errors import ConfigError

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
    from kubewright.dashboard import ClusterName, Dashboard, DashboardError

    async with Client.connect(config, metrics=False) as client:
        try:
            await client.version()
        except (APIError, ConnectionFailed, CredentialsError, TimeoutError) as error:
            raise click.ClickException(f"cannot reach the cluster of {config.source}: {error}") from None
        try:
            dashboard = Dashboard(
                client,
                bind=options["bind"],
                port=options["port"],
                read_only=options["read_only"],
                cluster=ClusterName(server=config.server, context=context_name(config.source)),
                hosts=options["hosts"],
                certificate=options["tls_cert"],
                key=options["tls_key"],
                on_address=AddressPrinter(opens=options["opens"]),
            )
            await run(dashboard)
        except DashboardError as error:
            raise click.ClickException(str(error)) from None


async def run(dashboard: Dashboard) -> None:
    """Serve until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await dashboard.run(stop)


class AddressPrinter:
    """Prints the addresses for signing in, and opens the first one if requested."""

    def __init__(self, *, opens: bool = False) -> None:
        self._opens = opens
        self._is_first = True

    def __call__(self, address: str) -> None:
        """Print an address."""
        if self._is_first:
            click.echo(f"Dashboard: {address}", err=True)
            if self._opens:
                click.launch(address)
        else:
            click.echo(f"Dashboard for another browser: {address}", err=True)
        self._is_first = False


def context_name(source: str) -> str:
    """Return the context of a configuration, from the text that describes its source."""
    return source.rpartition("(context ")[2].rstrip(")") if "(context " in source else source
