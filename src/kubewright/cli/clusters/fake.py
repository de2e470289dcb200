"""`kubewright fake`: serves fake applications behind Services of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_modules import add_project_to_path, relative_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubewright.client import Client
    from kubewright.testing.applications import FakeApplication


@click.command("fake")
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@kubeconfig_options
def fake_command(modules: tuple[str, ...], host: str, kubeconfig: str | None, context: str) -> None:
    """Serve the fake applications of modules behind Services of a cluster, until it is interrupted.

    Each application (FakeHTTP, FakeSQL) listens on free ports, and gets a Service with its name. Processes of
    kubewright up --run-processes find it in the variables of the Service, such as DB_SERVICE_HOST and
    DB_SERVICE_PORT.

    \b
    Example:
      kubewright fake tests.fakes --kubeconfig kubeconfig
    """
    from kubewright.api.errors import APIError
    from kubewright.client import Client, load_config
    from kubewright.client.errors import ConfigError, ConnectionFailed
    from kubewright.rehearse.plans.declared_fakes import FakesError, load_fakes

    add_project_to_path()
    try:
        applications = load_fakes(modules).applications
    except FakesError as error:
        raise click.ClickException(relative_paths(error)) from None

    async def serve() -> None:
        async with Client.connect(load_config(kubeconfig, context=context)) as client:
            await _serve(applications, client, host)

    try:
        asyncio.run(serve())
    except (APIError, ConfigError, ConnectionFailed, OSError) as error:
        raise click.ClickException(str(error)) from None


async def _serve(applications: Sequence[FakeApplication], client: Client, host: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        for each in applications:
            await stack.enter_async_context(each.served(client, host=host))
            assert each.address is not None
            address, port = each.address
            click.echo(f"service {each.namespace}/{each.service}: port {each.port} is {address}:{port}")
        await stop.wait()
