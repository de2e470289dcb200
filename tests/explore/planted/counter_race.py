"""Two workers read a shared counter and write it without a version: an increment is lost."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.client.patches import merge_patch
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, Planted
from .sites import Site, site, user_config


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, workers=2)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if site.status.phase == "Counted":
            return
        counter = await ctx.client.uncached.get(ConfigMap, "counter", namespace=NAMESPACE)
        counted = set(filter(None, (counter.data or {}).get("sites", "").split(",")))
        data = {"sites": ",".join(sorted({*counted, site.name}))}
        change: dict[str, object] = {"data": data}
        if fixed:
            change["metadata"] = {"resourceVersion": counter.metadata.resource_version}
        await ctx.client.patch(ConfigMap, "counter", merge_patch(change), namespace=NAMESPACE)
        site.status.phase = "Counted"
        await ctx.update_status()

    return operator


@scenario(setup=[user_config("counter", sites="")])
async def steps(steps: Steps) -> None:
    await steps.apply(site("shop"))
    await steps.apply(site("cafe"))
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, topic="conflicts", families=("reorder",), finding="data.sites")
