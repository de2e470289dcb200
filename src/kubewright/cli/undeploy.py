"""`kubewright undeploy`: removes an operator from a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .project_deployment import ChangeReport, ProjectDeployment, cluster_options, run_on_cluster

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.membership import SetMember


@click.command("undeploy")
@cluster_options
@click.option("--delete-objects", is_flag=True, help="Also delete CRDs of which objects exist.")
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait until a CRD is deleted."
)
def undeploy_command(
    kubeconfig: str | None, context: str, dry_run: bool, output: str, delete_objects: bool, timeout: float
) -> None:
    """Remove everything that kubewright deploy and kubewright install have applied.

    CRDs of which objects exist are kept, and so is the namespace of the operator if it contains such objects.
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
        from kubewright.client.applyset_inventory import CRD

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

        changes = await report.consume(
            apply_set.delete(
                keep=keep, delete_custom_objects=delete_objects, dry_run=dry_run, timeout=timeout
            )
        )
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
