"""The `kubewright` command.

Each command is a module of this package with a click command of the same name (dashes become underscores, the
function has the suffix `_command`). The module is imported when the command runs, so that `kubewright --help`
imports only click; the one-line help texts are therefore here.

Errors print one line `Error: ...` on stderr and exit with code 1, or 2 for wrong usage. Expected errors are
`click.ClickException`s; for others, `KUBEWRIGHT_TRACEBACK=1` prints the traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import click

import kubewright
from kubewright.parts import MissingPart

from .groups import CommandGroup, usage_message

COMMANDS: Final[dict[str, str]] = {
    "completion": "Print the completion script of a shell.",
    "docs": "Write the API reference of a project.",
    "check": "Check the code of a project and the compatibility of its CRDs.",
    "backup": "Write a backup of a store.",
    "bundle": "Write a bundle for the Operator Lifecycle Manager, or validate one.",
    "build-installer": "Write one file with everything to deploy the operator.",
    "dashboard": "Serve a web dashboard of a cluster.",
    "deploy": "Deploy the operator to a cluster, and prune what is no longer part of it.",
    "helm": "Write a Helm chart of the operator.",
    "install": "Install the CRDs of the project.",
    "apply": "Apply manifests to a cluster (server-side apply).",
    "create": "Add an API, webhooks, an API server or a kubectl plug-in to a project.",
    "envtest": "Write the executables that Go's envtest starts.",
    "explore": "Find bugs of an operator: run scenarios with a fault at every point.",
    "edit": "Change the settings of a project.",
    "init": "Create a project.",
    "manifests": "Generate CRDs, RBAC roles, webhook configurations and the deployment.",
    "migrate-storage": "Store all objects of CRDs in their storage version.",
    "restore": "Restore a backup to a store.",
    "run": "Run an operator or an API server.",
    "undecodable": "List stored objects that cannot be decoded, and delete them.",
    "undeploy": "Remove the operator from a cluster.",
    "upgrade": "Merge newer templates into the files of a project.",
    "uninstall": "Remove the CRDs of the project.",
    "up": "Run a Kubernetes control plane.",
    "version": "Print the version.",
}
"""Command names with their one-line help texts."""


class _Main(CommandGroup):
    """The command `kubewright`."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; print errors in one line, and exit."""
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
            sys.exit(code if isinstance(code, int) else 0)
        except click.UsageError as error:
            if not error.message or type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                click.echo(f"Error: {usage_message(error)}", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(1)
        except MissingPart as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        except Exception as error:
            if os.environ.get("KUBEWRIGHT_TRACEBACK"):
                raise
            advice = "set KUBEWRIGHT_TRACEBACK=1 for the traceback"
            click.echo(f"Error: {type(error).__name__}: {error} ({advice})", err=True)
            sys.exit(1)


@click.command(cls=_Main, texts=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kubewright.__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Extend Kubernetes in Python: APIs, controllers, webhooks, and an embedded control plane."""


__all__ = ["COMMANDS", "main"]
