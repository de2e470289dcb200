"""`kubewright create`: adds source files to a project. Each subcommand is a module `create_<name>`."""

from __future__ import annotations

from typing import Final

import click

from .groups import CommandGroup

CREATE_COMMANDS: Final[dict[str, str]] = {
    "api": "Add a kind, or a version of a kind, with a controller and tests.",
    "apiserver": "Add a kind that an aggregated API server of the project serves.",
    "credential-plugin": "Add a program that gives kubectl credentials.",
    "kubectl-plugin": "Add a command of kubectl for a kind.",
    "webhook": "Add defaulting, validating or conversion webhooks of a kind.",
}
"""Names of the subcommands with their one-line help texts."""


@click.command("create", cls=CommandGroup, texts=CREATE_COMMANDS, prefix="create_")
def create_command() -> None:
    """Add source files to a project; files that exist are not overwritten.

    \b
    Example:
      kubewright create api --group store --version v1 --kind Shop
    """
