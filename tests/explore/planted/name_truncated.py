"""Names of children are cut to 12 characters: sites whose names begin in the same way share a child."""

from __future__ import annotations

import hashlib

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        name = site.name[:12]
        if fixed:
            name = f"{name}-{hashlib.sha256(site.name.encode()).hexdigest()[:8]}"
        await ctx.apply(config_map(name, site, image=site.spec.image))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site("shopofthecorner"))
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="two instances",
    variation="instances:name",
    finding="ConfigMap",
)
