"""The size of a plan, another custom resource, is read and not watched."""

from __future__ import annotations

from kubewright import Context, Operator, Request
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.explore import Steps, scenario

from .kinds import CRDS, NAMESPACE, Part, Planted, part
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        plan = await ctx.client.uncached.get(Part, site.spec.team or "", namespace=NAMESPACE)
        await ctx.ensure([config_map(f"{site.name}-quota", site, size=str(plan.spec.size))])

    if fixed:

        @operator.watches(Part)
        async def sites_of(plan: Part, client: Client) -> list[Request]:
            return [Request.of(each) for each in await client.list(Site, namespace=NAMESPACE)]

    return operator


@scenario(setup=[*CRDS, part("gold", size=3)])
async def steps(steps: Steps) -> None:
    await steps.apply(site(team="gold"))
    await steps.wait(ConfigMap, "shop-quota", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="not watched",
    variation="input:Part.planted.example.com default/gold",
    finding="size",
)
