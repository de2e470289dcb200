"""Hosts are added to the ConfigMap one by one, and a host that is removed from the list stays."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.client.patches import merge_patch
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        name, namespace = f"{site.name}-hosts", site.metadata.namespace
        hosts = dict.fromkeys(site.spec.hosts, "on")
        if fixed:
            await ctx.ensure([config_map(name, site, **hosts)])
            return
        if await ctx.client.uncached.get_or_none(ConfigMap, name, namespace=namespace) is None:
            await ctx.client.create(ctx.own(config_map(name, site)))
        await ctx.client.patch(ConfigMap, name, merge_patch({"data": hosts}), namespace=namespace)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(hosts=["a.example.com"]))
    await steps.wait(ConfigMap, "shop-hosts", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="A-B-A",
    variation="round-trip:Site.planted.example.com spec.hosts",
    finding="data",
)
