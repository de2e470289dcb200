"""The `kubewright` command.

Each command is a module with a click command of the same name (dashes become underscores, the function has
the suffix `_command`). The module is imported when the command runs, so that `kubewright --help` imports only
click; the one-line help texts are therefore here.

- `projects`: commands that write the files of a project; `deployments`: commands that bring it to a cluster
- `operators`: commands that run, explore and show operators
- `clusters`: commands for control planes and stores
- `completion`, `version`: the other commands; `groups`: groups of commands
- `project_modules`, `project_deployment`, `kubeconfig_file`, `kubeconfig_options`, `redaction_key`,
  `snapshot_source`: what several commands use

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

from .groups import Command, CommandGroup, usage_message

COMMANDS: Final[dict[str, Command]] = {
    "completion": Command("completion", "Print the completion script of a shell."),
    "dns": Command("clusters.dns", "Serve DNS for the Services and pods of a cluster."),
    "docs": Command("projects.docs", "Write the API reference of a project."),
    "check": Command("projects.check", "Check the code of a project and the compatibility of its CRDs."),
    "backup": Command("clusters.backup", "Write a backup of a store."),
    "bundle": Command(
        "deployments.bundle", "Write a bundle for the Operator Lifecycle Manager, or validate one."
    ),
    "build-installer": Command(
        "deployments.build_installer", "Write one file with everything to deploy the operator."
    ),
    "dashboard": Command("operators.dashboard", "Serve a web dashboard of a cluster."),
    "diagnose": Command("operators.diagnose", "Write a redacted archive about an operator for a bug report."),
    "deploy": Command(
        "deployments.deploy", "Deploy the operator to a cluster, and prune what is no longer part of it."
    ),
    "helm": Command("deployments.helm", "Write a Helm chart of the operator."),
    "install": Command("deployments.install", "Install the CRDs of the project."),
    "apply": Command("deployments.apply", "Apply manifests to a cluster (server-side apply)."),
    "create": Command(
        "projects.create", "Add an API, webhooks, an API server or a kubectl plug-in to a project."
    ),
    "envtest": Command("clusters.envtest", "Write the executables that Go's envtest starts."),
    "explore": Command(
        "operators.explore", "Find bugs of an operator: run scenarios with a fault at every point."
    ),
    "diff": Command("clusters.diff", "Print what changed in a control plane between two revisions."),
    "export": Command("clusters.export", "Write the objects of a cluster to a file, redacted."),
    "fake": Command("clusters.fake", "Serve fake applications behind Services of a cluster."),
    "edit": Command("projects.edit", "Change the settings of a project."),
    "init": Command("projects.init", "Create a project."),
    "load": Command("clusters.load", "Load images into the containerd of a node of this machine."),
    "manifests": Command(
        "projects.manifests", "Generate CRDs, RBAC roles, webhook configurations and the deployment."
    ),
    "migrate-storage": Command(
        "clusters.migrate_storage", "Store all objects of CRDs in their storage version."
    ),
    "node": Command("clusters.node", "Prepare machines as nodes, without kubeadm."),
    "plan": Command("operators.plan", "Show what an operator would do with the objects of a cluster."),
    "record": Command("operators.record", "Record what happens in a cluster, to replay it."),
    "replay": Command("operators.replay", "Run an operator on a recording."),
    "restore": Command("clusters.restore", "Restore a backup to a store."),
    "rewind": Command("clusters.rewind", "Restore an earlier state of a control plane."),
    "run": Command("operators.run", "Run an operator or an API server."),
    "token": Command("clusters.token", "Manage bootstrap tokens, with which machines join a cluster."),
    "undecodable": Command(
        "clusters.undecodable", "List stored objects that cannot be decoded, and delete them."
    ),
    "undeploy": Command("deployments.undeploy", "Remove the operator from a cluster."),
    "upgrade": Command("projects.upgrade", "Merge newer templates into the files of a project."),
    "uninstall": Command("deployments.uninstall", "Remove the CRDs of the project."),
    "up": Command("clusters.up", "Run a Kubernetes control plane."),
    "version": Command("version", "Print the version."),
}
"""The commands by name."""


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


@click.command(cls=_Main, modules=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kubewright.__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Extend Kubernetes in Python: APIs, controllers, webhooks, and an embedded control plane."""
