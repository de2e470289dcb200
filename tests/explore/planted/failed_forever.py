"""A spec that cannot be deployed sets the phase Failed, and a failed site is never reconciled again."""

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
        if site.status.phase == "Failed" and not fixed:
            return
        if ":" not in site.spec.image:
            site.status.phase = "Failed"
            await ctx.update_status()
            return
        await ctx.ensure([deployment(site)])
        site.status.phase = "Running"
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Site, "shop", condition="{.status.phase}=Running")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="A-B-A",
    families=("specs",),
    finding="Failed",
)
