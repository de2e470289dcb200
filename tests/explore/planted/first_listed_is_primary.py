"""The first site in the cache is the primary one: the order of a cache is not defined."""

from __future__ import annotations

from kubewright import Context, Operator, Request
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        found = [each.name for each in await ctx.client.list(Site, namespace=NAMESPACE)]
        primary = min(found) if fixed else found[0]
        await ctx.ensure([config_map(f"{site.name}-role", site, primary=primary)])

    @operator.watches(Site)
    async def all_sites(site: Site, client: Client) -> list[Request]:
        return [Request.of(each) for each in await client.list(Site, namespace=NAMESPACE)]

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site("one"))
    await steps.apply(site("two"))
    await steps.wait(ConfigMap, "two-role", absent=False)
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="order",
    variation="restart",
    finding="primary",
)
