"""`kubewright create credential-plugin`: adds a credential plug-in of kubectl."""

from __future__ import annotations

from pathlib import Path

import click

from .project_changes import find_project, output_option, print_changes, scaffold_errors


@click.command("credential-plugin")
@click.argument("name")
@output_option
def create_credential_plugin_command(name: str, output: str) -> None:
    """Add the program NAME, which kubectl and other clients run to get credentials.

    It reads KUBERNETES_EXEC_INFO, logs in at a token service, keeps the token until it expires, and prints an
    ExecCredential. The entry point is added to [project.scripts] of pyproject.toml. Outside of a project, the
    current directory becomes a project for the plug-in.

    \b
    Example:
      kubewright create credential-plugin shop-login
    """
    from kubewright.scaffold.additions.credential_plugin import (
        create_credential_plugin,
        create_credential_plugin_project,
    )
    from kubewright.scaffold.errors import ScaffoldError

    with scaffold_errors():
        try:
            project = find_project()
        except ScaffoldError:
            changes = create_credential_plugin_project(Path.cwd(), name)
        else:
            changes = create_credential_plugin(project, name)
    print_changes(changes, output)
