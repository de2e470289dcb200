"""A scale down deletes the workers above the number of replicas, and not their claims."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap, PersistentVolumeClaim
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, claim, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap, PersistentVolumeClaim))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        namespace = site.metadata.namespace
        names = [f"{site.name}-{index}" for index in range(site.spec.replicas)]
        for name in names:
            await ctx.apply(config_map(name, site, role="worker"))
            await ctx.apply(claim(name, site))
        kinds: list[type[ConfigMap] | type[PersistentVolumeClaim]] = [ConfigMap]
        if fixed:
            kinds.append(PersistentVolumeClaim)
        for kind in kinds:
            for each in await ctx.client.uncached.list(kind, namespace=namespace):
                if each.metadata.name.startswith(f"{site.name}-") and each.metadata.name not in names:
                    owners = each.metadata.owner_references or []
                    if any(owner.uid == site.metadata.uid for owner in owners):
                        await ctx.client.delete(
                            kind, each.metadata.name, namespace=namespace, missing_ok=True
                        )

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=2))
    await steps.wait(PersistentVolumeClaim, "shop-1", absent=False)
    await steps.patch(Site, "shop", {"spec": {"replicas": 3}})
    await steps.wait(PersistentVolumeClaim, "shop-2", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="A-B-A",
    variation="round-trip:Site.planted.example.com spec.replicas",
    finding="PersistentVolumeClaim",
)
