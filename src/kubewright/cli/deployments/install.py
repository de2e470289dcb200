"""`kubewright install`: installs the CRDs of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubewright.cli.project_deployment import ChangeReport, ProjectDeployment, cluster_options, run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("install")
@cluster_options
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers have applied.")
def install_command(
    kubeconfig: str | None, context: str, dry_run: bool, output: str, force_conflicts: bool
) -> None:
    """Install the CRDs of the project, and wait until the API server serves them.

    CRDs that the project no longer declares are deleted unless objects of them exist. The namespace of the
    operator is created as well: it contains the inventory.

    \b
    Example:
      kubewright install --dry-run
      kubewright install --context staging
    """
    deployment = ProjectDeployment.load(needs_deployment=False)
    definitions = deployment.definitions
    report = ChangeReport(deployment, output=output, dry_run=dry_run)

    async def main(client: Client) -> None:
        from kubewright.client.set_writes import CRD

        apply_set = deployment.apply_set(client)
        await report.consume(
            apply_set.apply(definitions, kinds=(CRD,), force=force_conflicts, dry_run=dry_run)
        )

    run_on_cluster(main, kubeconfig=kubeconfig, context=context)
    report.finish(next_step="kubewright run, or kubewright deploy")
