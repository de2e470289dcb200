"""The change of an image is handled by comparing with memory; one that happens during a restart is lost."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.client.patches import merge_patch
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    seen: dict[str, str] = {}

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        name = f"{site.name}-image"
        found = await ctx.client.uncached.get_or_none(ConfigMap, name, namespace=NAMESPACE)
        if found is None:
            await ctx.client.create(ctx.own(config_map(name, site, image=site.spec.image)))
        else:
            before = (found.data or {}).get("image") if fixed else seen.get(site.name, site.spec.image)
            if before != site.spec.image:
                change = merge_patch({"data": {"image": site.spec.image}})
                await ctx.client.patch(ConfigMap, name, change, namespace=NAMESPACE)
        seen[site.name] = site.spec.image

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-image", absent=False)
    await steps.patch(Site, "shop", {"spec": {"image": "web:2"}})
    await steps.wait(ConfigMap, "shop-image", condition="{.data.image}=web:2")
    await steps.patch(Site, "shop", {"spec": {"image": "web:3"}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, topic="crash", families=("crash",), finding="data.image")
