"""`kubewright create apiserver`: adds a kind that an API server of the project serves."""

from __future__ import annotations

from typing import Any

import click

from .kind_options import plural_option, scope_option
from .project_changes import find_project, generate_manifests, output_option, print_changes, scaffold_errors


@click.command("apiserver")
@click.option("--group", default="", help="API group without the domain of the project, such as store.")
@click.option("--version", required=True, help="API version, such as v1 or v1alpha1.")
@click.option("--kind", required=True, help="Kind in CamelCase, such as Shop.")
@plural_option
@scope_option
@click.option("--manifests/--no-manifests", "generates", default=True, help="Whether to generate config.")
@output_option
def create_apiserver_command(generates: bool, output: str, **options: Any) -> None:
    """Add a kind with its own storage, served by an aggregated API server instead of a CRD.

    The first one creates the API server; further ones are added to it. Another version of a kind starts as a
    copy of the first one, which is stored, with a conversion between them.

    \b
    Example:
      kubewright create apiserver --group store --version v1 --kind Shop
    """
    from kubewright.scaffold.additions.apiserver import create_apiserver
    from kubewright.scaffold.inputs import ResourceInput

    with scaffold_errors():
        changes = create_apiserver(find_project(), ResourceInput(**options))
    if generates:
        generate_manifests(changes)
    print_changes(changes, output)
