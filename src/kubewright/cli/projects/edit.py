"""`kubewright edit`: changes the settings of a project."""

from __future__ import annotations

from typing import Any

import click

from .project_changes import find_project, generate_manifests, output_option, print_changes, scaffold_errors


@click.command("edit")
@click.option("--multigroup/--no-multigroup", default=None, help="Use a package for each API group.")
@click.option("--namespaced/--no-namespaced", default=None, help="Roles instead of ClusterRoles.")
@click.option("--image", help="Image of the manager.")
@click.option("--replicas", type=click.IntRange(0), help="Number of replicas of the manager.")
@click.option("--leader-election/--no-leader-election", default=None, help="Leader election of replicas.")
@click.option("--metrics/--no-metrics", default=None, help="Serve metrics.")
@click.option(
    "--monitor/--no-monitor", default=None, help="ServiceMonitor and alert rules of the Prometheus operator."
)
@click.option("--network-policy/--no-network-policy", default=None, help="NetworkPolicies of the manager.")
@click.option("--webhooks/--no-webhooks", default=None, help="Deploy the declared webhooks.")
@click.option(
    "--certificates",
    type=click.Choice(["self-signed", "cert-manager"]),
    help="Issuer of the webhook certificate.",
)
@click.option("--manifests/--no-manifests", "generates", default=True, help="Whether to generate config.")
@output_option
def edit_command(generates: bool, output: str, **options: Any) -> None:
    """Change the settings in pyproject.toml; source files and manifests follow.

    Comments and other keys of pyproject.toml are kept. --multigroup moves the modules of all kinds and
    rewrites the imports in the project.

    \b
    Example:
      kubewright edit --image registry.example.com/shop:0.1.0 --network-policy
    """
    from kubewright.scaffold.edit import edit_project

    values = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    with scaffold_errors():
        changes = edit_project(find_project(), values)
    if generates:
        generate_manifests(changes)
    print_changes(changes, output)
