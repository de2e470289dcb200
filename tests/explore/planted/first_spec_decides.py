"""Whether a site has a cache is decided by the first spec that was seen, and stored in its status."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        size = "large" if site.spec.replicas > 2 else "small"
        if site.status.phase is None or fixed:
            site.status.phase = size
        await ctx.ensure([config_map(f"{site.name}-cache", site, size=site.status.phase)])
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=3))
    await steps.wait(ConfigMap, "shop-cache", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="repeated",
    variation="split",
    finding="size",
)
