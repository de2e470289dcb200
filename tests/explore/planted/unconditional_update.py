"""The object is read, an external system is called, and what was read is written again."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.client.patches import merge_patch
from kubewright.explore import ExternalFake, Steps, scenario

from .kinds import Planted
from .sites import Site, site

registry = ExternalFake("registry", latency=2.0)


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if (site.metadata.annotations or {}).get("digest") == site.spec.image:
            return
        current = await ctx.client.uncached.get(Site, site.name, namespace=site.metadata.namespace)
        await registry.get(site.spec.image)
        if fixed:
            change = {"metadata": {"annotations": {"digest": site.spec.image}}}
            await ctx.client.patch(site, merge_patch(change))
            return
        change = {
            "metadata": {"annotations": {"digest": site.spec.image}},
            "spec": {"replicas": current.spec.replicas},
        }
        await ctx.client.patch(site, merge_patch(change))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("5s")
    await steps.patch(Site, "shop", {"spec": {"replicas": 2}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="conflicts",
    families=("external", "stale", "reorder"),
    finding="replicas",
)
