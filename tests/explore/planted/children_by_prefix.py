"""Old workers are found by the prefix of their names, which those of another site have as well."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        namespace = site.metadata.namespace
        names = [f"{site.name}-{index}" for index in range(site.spec.replicas)]
        for name in names:
            await ctx.apply(config_map(name, site, role="worker"))
        for each in await ctx.client.uncached.list(ConfigMap, namespace=namespace):
            owners = [owner.uid for owner in each.metadata.owner_references or []]
            is_own = site.metadata.uid in owners if fixed else each.metadata.name.startswith(f"{site.name}-")
            if is_own and each.metadata.name not in names:
                await ctx.client.delete(ConfigMap, each.metadata.name, namespace=namespace, missing_ok=True)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=2))
    await steps.wait(ConfigMap, "shop-1", absent=False)
    await steps.patch(Site, "shop", {"spec": {"replicas": 1}})
    await steps.wait(ConfigMap, "shop-1", absent=True)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="two instances",
    variation="instances:name",
    finding="ConfigMap",
)
