"""Each reconcile appends to the status."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.controller import generation_changed
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,), predicates=[generation_changed])
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await ctx.ensure([config_map(f"{site.name}-settings", site, image=site.spec.image)])
        deployed = (site.status.message or "").split()
        if not fixed or site.spec.image not in deployed[-1:]:
            site.status.message = " ".join([*deployed, site.spec.image])
            await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="restart",
    variation="restart",
    finding="message",
)
