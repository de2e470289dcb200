"""Settings of one site are written into the defaults that all sites of the process share."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    defaults = {"timeout": "30s"}

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        settings = dict(defaults) if fixed else defaults
        if site.spec.team:
            settings["team"] = site.spec.team
        if site.spec.cache:
            settings["cache"] = "on"
        await ctx.ensure([config_map(f"{site.name}-settings", site, **settings)])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(team="blue"))
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="two instances",
    variation="instances:name",
    finding="cache",
)
