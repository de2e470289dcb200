"""`kubewright run` of an API server: settings, and the confirmation of its registration."""

from __future__ import annotations

import ipaddress
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from kubewright.client import Client, ClusterConfig
    from kubewright.extension import APIServerApp

_NOT_OPTIONS = {
    "adopt_crds": "--adopt-crds",
    "namespaces": "--namespace",
    "leader_elect": "--leader-elect",
    "leader_elect_coordinated": "--leader-elect-coordinated",
    "leader_election_namespace": "--leader-election-namespace",
    "shards": "--shards",
    "probe_port": "--probe-port",
    "metrics_port": "--metrics-port",
    "metrics_insecure": "--metrics-insecure",
    "trace_port": "--trace-port",
    "dashboard": "--dashboard",
    "webhook_port": "--webhook-port",
    "webhook_certificates": "--webhook-certificates",
}
"""Options of operators; an API server has probes and metrics on its own port."""


def is_local(server: str) -> bool:
    """Whether an API server is on this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def configure_app(app: APIServerApp, options: dict[str, Any]) -> None:
    """Set the settings of an API server from variables; options of operators are errors."""
    for name, option in _NOT_OPTIONS.items():
        if options[name] not in (None, False, "", ()):
            raise click.UsageError(
                f"{option} is for operators; the settings of an API server are variables such as "
                "KUBEWRIGHT_PORT and KUBEWRIGHT_STORAGE"
            )
    try:
        app.settings.update_from_environment()
    except ValueError as error:
        raise click.ClickException(str(error)) from None


async def confirm_registration(
    app: APIServerApp, client: Client, config: ClusterConfig, *, confirms: bool
) -> None:
    """Check that a cluster can reach this machine, and ask before a registration that others may see."""
    from kubewright.manager.operators.installation import is_kubewright

    settings = app.settings
    if not settings.development:
        return
    if not settings.external_address and not is_local(config.server):
        raise click.ClickException(
            f"the API server {config.server} cannot reach this machine; set KUBEWRIGHT_EXTERNAL_ADDRESS to "
            "the host:port of a tunnel that forwards TLS to it, or run with --production"
        )
    if not confirms or await is_kubewright(client):
        return
    click.echo(f"API server {app.name} will register in {config.server} ({config.source}):", err=True)
    for name in app.api_service_names():
        click.echo(f"  APIService {name} (removed at the end)", err=True)
    if not sys.stdin.isatty():
        raise click.ClickException(
            f"{config.server} is not a control plane of `kubewright up`; confirm the registration with "
            "--yes, or run with --production"
        )
    if not click.confirm("Continue?", err=True):
        raise click.ClickException("nothing was registered; use --production to run without a registration")
