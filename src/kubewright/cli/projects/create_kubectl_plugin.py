"""`kubewright create kubectl-plugin`: adds a plug-in of kubectl."""

from __future__ import annotations

from pathlib import Path

import click

from .create_api import class_module
from .project_changes import find_project, output_option, print_changes, scaffold_errors


@click.command("kubectl-plugin")
@click.argument("name")
@click.option("--group", default="", help="API group of the kind.")
@click.option("--version", default="", help="API version of the kind.")
@click.option(
    "--kind",
    default="",
    help="Kind that the plug-in prints.  [default: the first of the project, else Deployment]",
)
@output_option
def create_kubectl_plugin_command(name: str, group: str, version: str, kind: str, output: str) -> None:
    """Add the command `kubectl NAME`: a typed client with a table and completion.

    The entry points kubectl-NAME and kubectl_complete-NAME are added to [project.scripts] of pyproject.toml;
    kubectl finds them on PATH after `pip install`. A dash in NAME separates subcommands: shop-list is
    `kubectl shop list`. Outside of a project, the current directory becomes a project for a built-in kind.

    \b
    Example:
      kubewright create kubectl-plugin shop
      kubewright create kubectl-plugin shop-list --kind Shop
      kubewright create kubectl-plugin jobs --group batch --version v1 --kind Job
    """
    from kubewright.scaffold.additions.kubectl_plugin import (
        DEPLOYMENT,
        create_kubectl_plugin,
        create_kubectl_plugin_project,
    )
    from kubewright.scaffold.errors import ScaffoldError
    from kubewright.scaffold.inputs import ResourceInput

    with scaffold_errors():
        try:
            project = find_project()
        except ScaffoldError:
            resource = DEPLOYMENT
            if kind or version or group:
                origin = class_module(False, "", group=group, version=version, kind=kind)
                resource = ResourceInput(group=group, version=version, kind=kind, origin=origin)
            changes = create_kubectl_plugin_project(Path.cwd(), name, resource)
        else:
            changes = create_kubectl_plugin(project, name, group=group, version=version, kind=kind)
    print_changes(changes, output)
