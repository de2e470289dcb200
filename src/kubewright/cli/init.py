"""`kubewright init`: creates a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .project_changes import output_option, print_changes, scaffold_errors


@click.command("init")
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--domain", default="example.com", show_default=True, help="Domain of the API groups of the project."
)
@click.option("--name", help="Name of the project and of its package.  [default: the name of the directory]")
@click.option("--owner", default="", help="Author in pyproject.toml and copyright holder in LICENSE.")
@click.option(
    "--license",
    "license_name",
    type=click.Choice(["apache2", "mit", "none"]),
    default="none",
    show_default=True,
    help="License of the project.",
)
@click.option("--multigroup", is_flag=True, help="Use a package for each API group.")
@click.option("--namespaced", is_flag=True, help="Deploy with Roles instead of ClusterRoles.")
@click.option(
    "--templates",
    multiple=True,
    metavar="PLUGIN",
    help="Installed template plug-in to use first; can be repeated.",
)
@output_option
def init_command(directory: Path, output: str, license_name: Any, name: str | None, **options: Any) -> None:
    """Create a project in DIRECTORY (default: the current one).

    Files that exist are kept; a directory that is a project already is an error.

    \b
    Example:
      kubewright init --domain example.com --name shop
    """
    from kubewright.scaffold.init import init_project
    from kubewright.scaffold.inputs import ProjectInputs, project_name

    with scaffold_errors():
        project = ProjectInputs(name=name or project_name(directory), license=license_name, **options)
        changes = init_project(directory, project)
    if directory != Path():
        changes.next.insert(0, f"cd {directory}")
    print_changes(changes, output)
