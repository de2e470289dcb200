"""A defaulting webhook adds a host each time that a site is written."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.default(Site)
    def set_defaults(site: Site) -> None:
        name = f"{site.name}.example.com"
        if not fixed or name not in site.spec.hosts:
            site.spec.hosts = [*site.spec.hosts, name]

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await ctx.ensure([config_map(f"{site.name}-hosts", site, hosts=",".join(site.spec.hosts))])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-hosts", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="repeated",
    variation="apply-again",
    finding="hosts",
)
