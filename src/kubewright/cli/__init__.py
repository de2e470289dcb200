"""The `kubewright` command.

Each command is one module of this package that defines a click command of the same name (dashes become
underscores, `_command` is appended to the function). A command's module is imported when it runs, so
`kubewright --help` costs no more than click itself; that is why the one-line helps stand here.

Errors that a user can mend are `click.ClickException`s and end in one line on stderr. Anything else is a
defect: it ends in one line too, and `KUBEWRIGHT_TRACEBACK=1` shows the rest.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

import click

COMMANDS: Final[dict[str, str]] = {
    "manifests": "Write CRDs, roles and webhook configurations from a project's types.",
    "run": "Run an operator in the foreground.",
    "up": "Run a Kubernetes control plane in the foreground.",
    "version": "Print the version.",
}
"""Command names with their one-line helps."""


class _Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        stem = cmd_name.replace("-", "_")
        module = importlib.import_module(f"{__name__}.{stem}")
        command: click.Command = getattr(module, f"{stem}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except Exception as error:
            if os.environ.get("KUBEWRIGHT_TRACEBACK"):
                raise
            advice = "set KUBEWRIGHT_TRACEBACK=1 to see where"
            click.echo(f"Error: {type(error).__name__}: {error} ({advice})", err=True)
            sys.exit(1)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubewright", message="%(prog)s %(version)s")
def main() -> None:
    """Extend Kubernetes in Python: APIs, controllers, webhooks, and a control plane in the box."""


__all__ = ["COMMANDS", "main"]
