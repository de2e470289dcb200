"""The team becomes the name of a ConfigMap, which has stricter rules than the field."""

from __future__ import annotations

import hashlib

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        team = site.spec.team or "none"
        if fixed:
            team = hashlib.sha256(team.encode()).hexdigest()[:20]
        await ctx.ensure([config_map(f"team-{team}", site, image=site.spec.image)])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(team="blue"))
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="specs",
    families=("specs",),
    finding="spec.team",
)
