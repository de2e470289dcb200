"""observedGeneration and Ready are written first, and the children afterwards."""

from __future__ import annotations

from kubewright import Condition, Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.api.conditions import set_condition
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        async def report() -> None:
            site.status.observed_generation = site.metadata.generation
            set_condition(site.status, Condition(type="Ready", status="True", reason="Deployed"))
            await ctx.update_status()

        if not fixed:
            await report()
        await ctx.ensure([deployment(site)])
        if fixed:
            await report()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Site, "shop", condition="Ready")
    await steps.patch(Site, "shop", {"spec": {"replicas": 2}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, topic="status", families=(), finding="before")
