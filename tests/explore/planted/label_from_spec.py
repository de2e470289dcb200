"""The team of a site becomes a label, which has stricter rules than the field."""

from __future__ import annotations

import hashlib
import re

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        child = config_map(f"{site.name}-settings", site, image=site.spec.image)
        team = site.spec.team or "none"
        if fixed and not re.fullmatch("[a-z0-9]{1,20}", team):
            team = hashlib.sha256(team.encode()).hexdigest()[:20]
        child.metadata.labels = {"team": team}
        await ctx.ensure([child])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(team="blue"))
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="specs",
    families=("specs",),
    finding="spec.team",
)
