"""The owner reference has the group of another project: nothing deletes the child."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import OwnerReference
from kubewright.explore import Steps, scenario

from .kinds import GROUP, Planted
from .sites import Site, config_map, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        child = config_map(f"{site.name}-settings", site, image=site.spec.image)
        group = GROUP if fixed else "example.com"
        child.metadata.owner_references = [
            OwnerReference(
                api_version=f"{group}/v1",
                kind="Site",
                name=site.name,
                uid=site.metadata.uid or "",
                controller=True,
            )
        ]
        await ctx.client.apply(child)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(build=build, scenario=steps, topic="owner references", families=(), finding="owner")
