"""The age of a site is computed from the clock of the process: with another clock, a site expires early."""

from __future__ import annotations

from datetime import timedelta

from kubewright import Context, Operator, Result
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.values.times import now
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> Result | None:
        await ctx.ensure([config_map(f"{site.name}-settings", site, image=site.spec.image)])
        if site.status.phase == "Expired":
            return None
        created = site.metadata.creation_timestamp
        assert created is not None
        if not fixed and now() - created > timedelta(minutes=4):
            site.status.phase = "Expired"
        else:
            site.status.phase = "Running"
        await ctx.update_status()
        return None

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-settings", absent=False)
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, topic="clock", families=("clock",), finding="Expired")
