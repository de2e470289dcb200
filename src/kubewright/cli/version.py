"""`kubewright version`: prints the versions of this program and of the cluster."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING

import click

import kubewright

from .kubeconfig_options import kubeconfig_options

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("version")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option("--server", is_flag=True, help="Print the version of the API server of the cluster as well.")
@kubeconfig_options
def version_command(output: str, server: bool, kubeconfig: str | None, context: str) -> None:
    """Print the versions of Kubewright, of Python and of the supported Kubernetes API.

    \b
    Example:
      kubewright version --output json
      kubewright version --server
    """
    from kubewright.api.builtin.resources import RELEASE

    server_version = _server_version(kubeconfig, context) if server or kubeconfig or context else None
    if output == "json":
        versions = {
            "kubewright": kubewright.__version__,
            "python": platform.python_version(),
            "kubernetes": RELEASE,
        }
        if server_version is not None:
            versions["server"] = server_version
        click.echo(json.dumps(versions))
    else:
        python = f"Python {platform.python_version()}"
        click.echo(f"kubewright {kubewright.__version__} ({python}, Kubernetes API {RELEASE})")
        if server_version is not None:
            click.echo(f"server {server_version}")


def _server_version(kubeconfig: str | None, context: str) -> str:
    from .project_deployment import run_on_cluster

    found: dict[str, str] = {}

    async def read(client: Client) -> None:
        found.update(await client.version())

    run_on_cluster(read, kubeconfig=kubeconfig, context=context)
    return found["gitVersion"]
