"""`--dashboard` of `kubewright run` and `kubewright up`: a dashboard in the same process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kubewright.client import ClusterConfig
    from kubewright.controlplane import ControlPlane


PORT_VARIABLE, KEY_VARIABLE = "KUBEWRIGHT_DASHBOARD_PORT", "KUBEWRIGHT_DASHBOARD_KEY"
"""Variables of an operator that is restarted: an open page continues to work after a restart."""
WORKLOADS = "workload controllers"
"""Name of the controllers of a control plane in this process."""


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


@contextlib.asynccontextmanager
async def operator_dashboard(
    operator: str, config: ClusterConfig, options: dict[str, Any], planes: Sequence[ControlPlane]
) -> AsyncIterator[list[Callable[..., Any]]]:
    """Return the components to add to the manager of an operator: a dashboard, if the options request it.

    It also shows the workload controllers of control planes in this process.
    """
    if not options["dashboard"]:
        yield []
        return
    from kubewright.client import Client
    from kubewright.controlplane.admission_spans import AdmissionTraces
    from kubewright.dashboard import ClusterName, OperatorDashboard

    async with Client.connect(config, metrics=False, on_warning=ignore_warning) as client:

        def create(manager: Any, recorder: Any) -> OperatorDashboard:
            operators = {operator: manager}
            for plane in planes:
                if plane.workloads is not None:
                    operators[WORKLOADS] = plane.workloads
            return OperatorDashboard(
                client,
                operators,
                others=[AdmissionTraces(plane, webhooks=False) for plane in planes],
                port=options["dashboard_port"] or int(os.environ.get(PORT_VARIABLE, "0")),
                session_key=os.environ.get(KEY_VARIABLE, "").encode(),
                cluster=ClusterName(server=config.server, context=context_name(config.source)),
                on_address=AddressPrinter(),
            )

        yield [create]


def restart_environment(options: dict[str, Any]) -> dict[str, str]:
    """Return the variables with which a restarted operator serves the dashboard at the same address."""
    if not options["dashboard"]:
        return {}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = options["dashboard_port"] or probe.getsockname()[1]
    return {PORT_VARIABLE: str(port), KEY_VARIABLE: secrets.token_hex(32)}


async def serve_dashboard(plane: ControlPlane, stop: asyncio.Event, *, port: int) -> None:
    """Serve the dashboard of a control plane in this process until `stop` is set.

    It shows the reconciles of the workload controllers, which are controllers like those of an operator, the
    calls of webhooks, and the evaluations of admission policies.
    """
    from kubewright.apiserver.in_process import InProcessTransport
    from kubewright.client import Client
    from kubewright.controlplane.admission_spans import AdmissionTraces
    from kubewright.dashboard import ClusterName, DashboardError, OperatorDashboard

    client = Client.from_transport(InProcessTransport(plane.server), on_warning=ignore_warning)
    options: dict[str, Any] = {
        "port": port,
        "cluster": ClusterName(server=plane.url, context="kubewright up"),
        "on_address": AddressPrinter(),
    }
    operators = {} if plane.workloads is None else {WORKLOADS: plane.workloads}
    try:
        await OperatorDashboard(client, operators, others=[AdmissionTraces(plane)], **options).run(stop)
    except DashboardError as error:
        raise click.ClickException(str(error)) from None


def ignore_warning(text: str) -> None:
    """Ignore a warning of the API server: the dashboard reads every kind, deprecated ones too."""


def context_name(source: str) -> str:
    """Return the context of a configuration, from the text that describes its source."""
    return source.rpartition("(context ")[2].rstrip(")") if "(context " in source else source
