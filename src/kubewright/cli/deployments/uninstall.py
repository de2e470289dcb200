"""`kubewright uninstall`: removes the CRDs of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubewright.cli.project_deployment import ChangeReport, ProjectDeployment, cluster_options, run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client


@click.command("uninstall")
@cluster_options
@click.option("--delete-objects", is_flag=True, help="Also delete CRDs of which objects exist.")
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait until a CRD is deleted."
)
def uninstall_command(
    kubeconfig: str | None, context: str, dry_run: bool, output: str, delete_objects: bool, timeout: float
) -> None:
    """Remove the CRDs of the project. CRDs of which objects exist are kept, unless --delete-objects.

    \b
    Example:
      kubewright uninstall
      kubewright uninstall --delete-objects
    """
    deployment = ProjectDeployment.load(needs_deployment=False)
    report = ChangeReport(deployment, output=output, dry_run=dry_run)
    kept: list[str] = []

    async def main(client: Client) -> None:
        from kubewright.client.set_writes import CRD

        changes = await report.consume(
            deployment.apply_set(client).delete(
                kinds=(CRD,), delete_custom_objects=delete_objects, dry_run=dry_run, timeout=timeout
            )
        )
        kept.extend(each.name for each in changes if each.action == "kept")

    run_on_cluster(main, kubeconfig=kubeconfig, context=context)
    report.finish()
    if kept:
        raise click.ClickException(
            f"objects of {', '.join(kept)} exist; delete them, or run kubewright uninstall --delete-objects"
        )
