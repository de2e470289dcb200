"""Switching the cache on creates a ConfigMap, and switching it off does not delete it."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment, ConfigMap))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        name = f"{site.name}-cache"
        await ctx.apply(deployment(site))
        if site.spec.cache:
            await ctx.apply(config_map(name, site, size="1Gi"))
        elif fixed:
            await ctx.client.delete(ConfigMap, name, namespace=site.metadata.namespace, missing_ok=True)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Deployment, "shop", absent=False)
    await steps.patch(Site, "shop", {"spec": {"image": "web:2"}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="A-B-A",
    variation="round-trip:Site.planted.example.com spec.cache",
    finding="shop-cache",
)
