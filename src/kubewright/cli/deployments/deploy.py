"""`kubewright deploy`: deploys an operator to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.project_deployment import (
    ChangeReport,
    ProjectDeployment,
    cluster_options,
    image_option,
    require_kinds,
    run_on_cluster,
)

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.readiness import Readiness


@click.command("deploy")
@image_option
@cluster_options
@click.option("--wait/--no-wait", default=True, help="Wait until all objects are ready.  [default: wait]")
@click.option("--timeout", type=float, default=180.0, show_default=True, help="Seconds to wait.")
@click.option(
    "--plan",
    "shows_plan",
    is_flag=True,
    help="Show what the operator would do first, and deploy only if nothing is disrupted.",
)
@click.option(
    "--accept-disruption", is_flag=True, help="With --plan, deploy although something would be disrupted."
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers have applied.")
def deploy_command(
    image: str | None,
    kubeconfig: str | None,
    context: str,
    dry_run: bool,
    output: str,
    wait: bool,
    timeout: float,
    shows_plan: bool,
    accept_disruption: bool,
    force_conflicts: bool,
) -> None:
    """Deploy the operator of the project: CRDs, permissions, manager and webhooks.

    The objects are generated from the types and from [tool.kubewright.deployment]; the files in config/ are
    not read, but the objects in config/samples are validated. Objects of the last deployment that are no
    longer generated are deleted, except CRDs of which objects exist.

    \b
    Example:
      kubewright deploy --image registry.example.com/shop:1.2.0
      kubewright deploy --dry-run
      kubewright deploy --plan
    """
    from kubewright.cli.projects.manifests import warn_of_samples

    deployment = ProjectDeployment.load(image=image)
    objects = deployment.objects
    warn_of_samples(deployment.manifests, deployment.settings.manifests.output)
    if shows_plan:
        check_plan(deployment, kubeconfig=kubeconfig, context=context, accept_disruption=accept_disruption)
    report = ChangeReport(deployment, output=output, dry_run=dry_run)
    waits = wait and not dry_run

    async def main(client: Client) -> None:
        from kubewright.client.applyset_inventory import ApplySetError

        await require_kinds(client, objects)
        apply_set = deployment.apply_set(client)
        await report.consume(apply_set.apply(objects, force=force_conflicts, dry_run=dry_run))
        if waits:
            try:
                with report.progress() as progress:
                    await apply_set.wait_until_ready(
                        timeout=timeout, progress=progress, rule=deployed_readiness
                    )
            except ApplySetError:
                await print_pods(client, deployment.namespace)
                raise

    run_on_cluster(main, kubeconfig=kubeconfig, context=context)
    report.finish(is_ready=True if waits else None, next_step="kubectl apply -f config/samples")


def check_plan(
    deployment: ProjectDeployment, *, kubeconfig: str | None, context: str, accept_disruption: bool
) -> None:
    """Print the plan of the operator; raise `ClickException` if it must not be deployed."""
    from kubewright.cli.clusters.export import operator_rules
    from kubewright.cli.operators.plan import make_plan, print_plan, project_fakes
    from kubewright.cli.snapshot_source import read_context
    from kubewright.manifests import load_project_of
    from kubewright.recording.redaction import Redactor
    from kubewright.rehearse.kind_selection import KindSelection
    from kubewright.rehearse.plans.model import DISRUPTIVE, ERROR
    from kubewright.rehearse.plans.planner import PlanOptions

    operators = [each.target for each in load_project_of(deployment.settings).operators]
    if len(operators) != 1:
        raise click.ClickException("--plan needs a project with one operator; use kubewright plan")
    snapshot = read_context(
        context,
        kubeconfig=kubeconfig,
        selection=KindSelection.of_rules(operator_rules(operators[0])),
        redactor=Redactor(secrets_only=True),
    )
    plan = make_plan(operators[0], snapshot, PlanOptions(fakes=project_fakes()))
    print_plan(plan)
    if plan.exit_code == ERROR:
        raise click.ClickException("not deployed: the plan has errors")
    if plan.exit_code == DISRUPTIVE and not accept_disruption:
        raise click.ClickException(
            "not deployed: something would be disrupted; deploy it with --accept-disruption"
        )


async def print_pods(client: Client, namespace: str) -> None:
    """Print the states of the manager pods, which show why a Deployment is not available."""
    from kubewright.api.core.v1 import Pod
    from kubewright.client.readiness import readiness_of

    async for pod in client.list(Pod, namespace=namespace, labels={"control-plane": "controller-manager"}):
        click.echo(f"pod/{pod.name}: {readiness_of(pod)}", err=True)


def deployed_readiness(obj: dict[str, Any]) -> Readiness:
    """Return the readiness of an object; webhooks are ready when they have a CA bundle."""
    from kubewright.client.readiness import Readiness, readiness_of

    for webhook in obj.get("webhooks") or ():
        config = webhook.get("clientConfig") or {}
        if "service" in config and not config.get("caBundle"):
            return Readiness("InProgress", f"webhook {webhook.get('name')} has no CA bundle yet")
    return readiness_of(obj)
