"""`kubewright create`: adds source files to a project. Each subcommand is a module `create_<name>`."""

from __future__ import annotations

from typing import Final

import click

from kubewright.cli.groups import Command, CommandGroup

CREATE_COMMANDS: Final[dict[str, Command]] = {
    "api": Command("projects.create_api", "Add a kind, or a version of a kind, with a controller and tests."),
    "apiserver": Command(
        "projects.create_apiserver", "Add a kind that an aggregated API server of the project serves."
    ),
    "credential-plugin": Command(
        "projects.create_credential_plugin", "Add a program that gives kubectl credentials."
    ),
    "kubectl-plugin": Command("projects.create_kubectl_plugin", "Add a command of kubectl for a kind."),
    "webhook": Command(
        "projects.create_webhook", "Add defaulting, validating or conversion webhooks of a kind."
    ),
}
"""The subcommands by name."""


@click.command("create", cls=CommandGroup, modules=CREATE_COMMANDS)
def create_command() -> None:
    """Add source files to a project; files that exist are not overwritten.

    \b
    Example:
      kubewright create api --group store --version v1 --kind Shop
    """
