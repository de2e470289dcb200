"""`kubewright create kubectl-plugin`: adds a plug-in of kubectl."""

from __future__ import annotations

import click

from .project_changes import find_project, output_option, print_changes, scaffold_errors


@click.command("kubectl-plugin")
@click.argument("name")
@click.option("--group", default="", help="API group of the kind.")
@click.option("--version", default="", help="API version of the kind.")
@click.option("--kind", default="", help="Kind that the plug-in prints.  [default: the first of the project]")
@output_option
def create_kubectl_plugin_command(name: str, group: str, version: str, kind: str, output: str) -> None:
    """Add the command `kubectl NAME`: a typed client with a table and completion.

    The entry points kubectl-NAME and kubectl_complete-NAME are added to [project.scripts] of pyproject.toml;
    kubectl finds them on PATH after `pip install`. A dash in NAME separates subcommands: shop-list is
    `kubectl shop list`.

    \b
    Example:
      kubewright create kubectl-plugin shop
      kubewright create kubectl-plugin shop-list --kind Shop
    """
    from kubewright.scaffold.kubectl_plugin import create_kubectl_plugin

    with scaffold_errors():
        changes = create_kubectl_plugin(find_project(), name, group=group, version=version, kind=kind)
    print_changes(changes, output)
