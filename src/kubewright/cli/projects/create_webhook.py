"""`kubewright create webhook`: adds webhooks of a kind."""

from __future__ import annotations

from typing import Any

import click

from .create_api import class_module
from .project_changes import find_project, generate_manifests, output_option, print_changes, scaffold_errors


@click.command("webhook")
@click.option("--group", default="", help="API group without the domain of the project, such as store.")
@click.option("--version", required=True, help="API version, such as v1.")
@click.option("--kind", required=True, help="Kind, such as Shop.")
@click.option("--defaulting", is_flag=True, help="Add a function that sets defaults.")
@click.option("--validation", is_flag=True, help="Add a function that validates objects.")
@click.option("--conversion", is_flag=True, help="Add the conversion between the versions of the kind.")
@click.option(
    "--spoke",
    "spokes",
    multiple=True,
    metavar="VERSION",
    help="Version to convert to and from the storage version; can be repeated.  [default: all]",
)
@click.option("--resource/--no-resource", "own", default=True, help="--no-resource is for a built-in kind.")
@click.option(
    "--external-type", default="", metavar="MODULE:CLASS", help="Class of a kind of another project."
)
@click.option("--manifests/--no-manifests", "generates", default=True, help="Whether to generate config.")
@output_option
def create_webhook_command(
    own: bool, external_type: str, generates: bool, output: str, **options: Any
) -> None:
    """Add webhooks to a version of a kind.

    If its webhook module exists, the missing functions are appended to it.

    \b
    Example:
      kubewright create webhook --group store --version v1 --kind Shop --defaulting --validation
      kubewright create webhook --group store --version v1 --kind Shop --conversion --spoke v2
    """
    from kubewright.scaffold.additions.webhook import create_webhook
    from kubewright.scaffold.inputs import ResourceInput

    names = {name: options.pop(name) for name in ("group", "version", "kind")}
    with scaffold_errors():
        directory = find_project()
        resource = ResourceInput(origin=class_module(own, external_type, **names), **names)
        changes = create_webhook(directory, resource, **options)
    if generates:
        generate_manifests(changes)
    print_changes(changes, output)
