"""`kubewright init`: creates a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .project_changes import generate_manifests, output_option, print_changes, scaffold_errors


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
@click.option(
    "--from-kubebuilder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Start with the types, samples and webhooks of a kubebuilder project.",
)
@click.option(
    "--from-kopf",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Start with a function for each handler of a kopf module.",
)
@click.option(
    "--crds",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|DIR",
    help="With --from-kopf: CRDs of the resources, for their types.",
)
@output_option
def init_command(
    directory: Path,
    output: str,
    license_name: Any,
    name: str | None,
    from_kubebuilder: Path | None,
    from_kopf: Path | None,
    crds: Path | None,
    **options: Any,
) -> None:
    """Create a project in DIRECTORY (default: the current one).

    Files that exist are kept; a directory that is a project already is an error.

    \b
    Example:
      kubewright init --domain example.com --name shop
      kubewright init shop --from-kubebuilder ../shop-go
      kubewright init greeter --from-kopf ../greeter/handlers.py --crds ../greeter/crd.yaml
    """
    if from_kubebuilder is not None and from_kopf is not None:
        raise click.UsageError("--from-kubebuilder and --from-kopf exclude each other")
    if crds is not None and from_kopf is None:
        raise click.UsageError("--crds requires --from-kopf")
    from kubewright.scaffold.init import init_project
    from kubewright.scaffold.inputs import ProjectInputs, project_name

    from .crd_sources import definition_errors

    with scaffold_errors(), definition_errors():
        if from_kubebuilder is not None:
            from kubewright.scaffold.migration.from_kubebuilder import init_from_kubebuilder

            if click.get_current_context().get_parameter_source("domain") == ParameterSource.DEFAULT:
                del options["domain"]
            changes = init_from_kubebuilder(
                directory, from_kubebuilder, name=name, license=license_name, **options
            )
        else:
            project = ProjectInputs(name=name or project_name(directory), license=license_name, **options)
            if from_kopf is None:
                changes = init_project(directory, project)
            else:
                from kubewright.scaffold.migration.from_kopf import init_from_kopf
                from kubewright.scaffold.types.from_crd import read_crds

                definitions = read_crds(crds) if crds is not None else []
                changes = init_from_kopf(directory, from_kopf, project, crds=definitions)
    if from_kubebuilder is not None or from_kopf is not None:
        generate_manifests(changes)
    if directory != Path():
        changes.next.insert(0, f"cd {directory}")
    print_changes(changes, output)
