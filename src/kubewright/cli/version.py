"""`kubewright version`: what is installed, for people and for scripts."""

from __future__ import annotations

import json
import platform

import click

import kubewright


@click.command("version")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def version_command(output: str) -> None:
    """Print the version of Kubewright, of Python and of the Kubernetes API that it speaks."""
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
