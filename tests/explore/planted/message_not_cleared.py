"""The message of a failure stays in the status after the failure was repaired."""

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
        if site.spec.replicas > 5:
            site.status.phase = "Degraded"
            site.status.message = f"{site.spec.replicas} replicas exceed the quota of 5"
            await ctx.update_status()
            return
        await ctx.ensure([deployment(site)])
        site.status.phase = "Running"
        if fixed:
            site.status.message = None
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=4))
    await steps.wait(Site, "shop", condition="{.status.phase}=Running")
    await steps.patch(Site, "shop", {"spec": {"replicas": 5}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="A-B-A",
    variation="round-trip:Site.planted.example.com spec.replicas",
    finding="message",
)
