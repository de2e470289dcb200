"""The claim of a site has no owner, and nothing deletes it with the site."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import PersistentVolumeClaim
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, claim, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        name = f"{site.name}-data"
        if await ctx.client.uncached.get_or_none(
            PersistentVolumeClaim, name, namespace=site.metadata.namespace
        ):
            return
        wanted = claim(name, site)
        await ctx.client.create(ctx.own(wanted) if fixed else wanted)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(PersistentVolumeClaim, "shop-data", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="deletion",
    variation="deletion",
    finding="shop-data",
)
