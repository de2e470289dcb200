"""`kubewright version`: prints the installed version."""

from __future__ import annotations

import json
import platform

import click

import kubewright


@click.command("version")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def version_command(output: str) -> None:
    """Print the versions of Kubewright, of Python and of the supported Kubernetes API.

    \b
    Example:
      kubewright version --output json
    """
    from kubewright.api.builtin_resources import RELEASE

    if output == "json":
        versions = {
            "kubewright": kubewright.__version__,
            "python": platform.python_version(),
            "kubernetes": RELEASE,
        }
        click.echo(json.dumps(versions))
    else:
        python = f"Python {platform.python_version()}"
        click.echo(f"kubewright {kubewright.__version__} ({python}, Kubernetes API {RELEASE})")
