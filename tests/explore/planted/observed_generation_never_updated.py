"""observedGeneration is written only with the first status: clients wait forever after an update."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await ctx.ensure([deployment(site)])
        if fixed or site.status.phase != "Ready":
            site.status.phase = "Ready"
            site.status.observed_generation = site.metadata.generation
            await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Site, "shop", condition="{.status.phase}=Ready")
    await steps.patch(Site, "shop", {"spec": {"replicas": 2}})
    await steps.wait(Deployment, "shop", condition="{.spec.replicas}=2")


PLANTED = Planted(build=build, scenario=steps, topic="status", families=(), finding="observedGeneration")
