"""status.readyReplicas is copied from the spec, not from the Deployment."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ResourceRequirements
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        wanted = deployment(site)
        assert wanted.spec is not None
        assert wanted.spec.template.spec is not None
        wanted.spec.template.spec.containers[0].resources = ResourceRequirements(requests={"cpu": "1000"})
        await ctx.ensure([wanted])
        found = await ctx.client.get_or_none(Deployment, site.name, namespace=site.metadata.namespace)
        status = found.status if found is not None else None
        ready = (status.ready_replicas or 0) if status is not None else 0
        site.status.ready_replicas = ready if fixed else site.spec.replicas
        await ctx.update_status()

    return operator


@scenario(controllers=True)
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=3))
    await steps.advance("5m")


PLANTED = Planted(build=build, scenario=steps, topic="status", families=(), finding="readyReplicas")
