"""The finalizer creates a ConfigMap in the namespace of the site, which may be in deletion."""

from __future__ import annotations

from kubewright import Context, ObjectMeta, Operator
from kubewright.api.core.v1 import ConfigMap, Namespace
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site

BACKUPS = Namespace(metadata=ObjectMeta(name="backups"))


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(ConfigMap,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await ctx.ensure([config_map(f"{site.name}-settings", site, image=site.spec.image)])

    @operator.finalize(Site)
    async def notify(site: Site, ctx: Context[Site]) -> None:
        marker = ConfigMap(metadata=ObjectMeta(generate_name="goodbye-", namespace=site.metadata.namespace))
        namespace = await ctx.client.uncached.get_or_none(Namespace, site.metadata.namespace or "")
        if fixed and (namespace is None or namespace.metadata.deletion_timestamp is not None):
            return
        await ctx.client.create(marker)

    return operator


@scenario(setup=[BACKUPS], tolerate=["ConfigMap"])
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="deletion",
    variation="namespace-deletion",
    finding="finalizers",
)
