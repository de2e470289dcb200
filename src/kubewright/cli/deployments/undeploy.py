"""`kubewright undeploy`: removes an operator from a cluster."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from kubewright.cli.project_deployment import ChangeReport, ProjectDeployment, cluster_options, run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.applyset import AppliedChange
    from kubewright.client.membership import SetMember


@click.command("undeploy")
@cluster_options
@click.option("--yes", "-y", is_flag=True, help="Do not ask before anything is deleted.")
@click.option("--delete-objects", is_flag=True, help="Also delete CRDs of which objects exist.")
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait until a CRD is deleted."
)
def undeploy_command(
    kubeconfig: str | None,
    context: str,
    dry_run: bool,
    output: str,
    yes: bool,
    delete_objects: bool,
    timeout: float,
) -> None:
    """Remove everything that kubewright deploy and kubewright install have applied.

    What will be deleted is listed, and you are asked to confirm it (--yes confirms it in scripts). Objects
    that existed before they were applied, such as a namespace, are not deleted. CRDs of which objects exist
    are kept, and so is the namespace of the operator if it contains such objects.
    With --delete-objects they are deleted first, while the operator still runs and can finalize them.

    \b
    Example:
      kubewright undeploy --dry-run
      kubewright undeploy
    """
    deployment = ProjectDeployment.load(needs_deployment=False)
    report = ChangeReport(deployment, output=output, dry_run=dry_run)
    messages: list[str] = []

    async def main(client: Client) -> None:
        from kubewright.client.set_writes import CRD

        apply_set, namespace = deployment.apply_set(client), deployment.namespace
        members = await apply_set.members()
        if not members:
            messages.append(
                f"nothing to delete: ConfigMap {namespace}/{apply_set.name} does not exist; objects that "
                "were applied with kubectl are deleted with kubectl delete -f"
            )
            return
        used = 0
        for each in members:
            if each.gvk.group_kind == CRD and not delete_objects:
                used += await apply_set.count_custom_objects(each.name, namespace=namespace)

        def keep(member: SetMember) -> str:
            if member.gvk.kind == "Namespace" and member.name == namespace and used:
                return f"{used} object{'s' if used > 1 else ''} of the project exist in it"
            return ""

        delete = partial(apply_set.delete, keep=keep, delete_custom_objects=delete_objects, timeout=timeout)
        if not dry_run and not yes:
            confirm_deletion([change async for change in delete(dry_run=True)])
        changes = await report.consume(delete(dry_run=dry_run))
        kept = [each.name for each in changes if each.action == "kept" and each.kind == CRD]
        if kept:
            messages.append(
                f"kept {', '.join(kept)}; without the operator, finalizers and conversion of these "
                "objects do not run. Delete them with kubewright uninstall --delete-objects"
            )

    run_on_cluster(main, kubeconfig=kubeconfig, context=context)
    report.finish()
    for message in messages:
        click.echo(f"Warning: {message}", err=True)


def confirm_deletion(changes: list[AppliedChange]) -> None:
    """List what would be deleted and ask; raise a `ClickException` if there is no terminal to ask."""
    for change in changes:
        content = ", with everything in it" if change.kind.kind == "Namespace" else ""
        if change.action == "deleted":
            place = f" in {change.namespace}" if change.namespace else ""
            click.echo(f"{change.reference}{place} will be deleted{content}", err=True)
        else:
            click.echo(str(change), err=True)
    if not sys.stdin.isatty():
        raise click.ClickException("nothing was deleted; confirm the list above with --yes")
    click.confirm("Delete these objects?", abort=True, err=True)
