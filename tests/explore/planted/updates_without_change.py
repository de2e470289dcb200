"""Every reconcile updates the Deployment, changed or not, and reconciles are repeated every 15 seconds."""

from __future__ import annotations

from kubewright import Context, Operator, Result
from kubewright.api.apps.v1 import Deployment
from kubewright.client.patches import merge_patch
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> Result:
        wanted = deployment(site)
        found = await ctx.client.get_or_none(Deployment, site.name, namespace=site.metadata.namespace)
        if found is None:
            await ctx.client.create(ctx.own(wanted))
        else:
            assert found.spec is not None
            if not fixed or found.spec.replicas != site.spec.replicas:
                found.spec.replicas = site.spec.replicas
                await ctx.client.patch(found, merge_patch({"spec": {"replicas": site.spec.replicas}}))
        return Result(requeue_after=15)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Deployment, "shop", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="writes",
    variation="control",
    finding="changed nothing",
)
