"""The old Service is deleted before it turns out that the new one cannot be created."""

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
        name = f"{site.name}-settings"
        found = await ctx.client.uncached.get_or_none(ConfigMap, name, namespace=namespace)
        wanted = config_map(name, site, image=site.spec.image)
        if found is not None and found.data == wanted.data:
            site.status.phase = "Running"
            await ctx.update_status()
            return
        is_valid = ":" in site.spec.image
        if fixed and not is_valid:
            site.status.phase = "Failed"
            await ctx.update_status()
            return
        if found is not None:
            await ctx.client.delete(ConfigMap, name, namespace=namespace)
        if not is_valid:
            site.status.phase = "Failed"
        else:
            await ctx.client.create(ctx.own(wanted))
            site.status.phase = "Running"
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="specs",
    families=("specs",),
    finding="deleted",
)
