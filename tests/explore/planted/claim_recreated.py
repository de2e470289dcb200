"""The claim is deleted and created again when the image changes: its data is lost."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.core.v1 import PersistentVolumeClaim
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, claim, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(PersistentVolumeClaim,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        namespace = site.metadata.namespace
        found = await ctx.client.uncached.get_or_none(PersistentVolumeClaim, site.name, namespace=namespace)
        wanted = claim(site.name, site)
        if fixed:
            await ctx.ensure([wanted])
            return
        wanted.metadata.annotations = {"image": site.spec.image}
        if found is not None and (found.metadata.annotations or {}).get("image") != site.spec.image:
            await ctx.client.delete(PersistentVolumeClaim, site.name, namespace=namespace)
            found = None
        if found is None:
            await ctx.client.create(ctx.own(wanted))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(PersistentVolumeClaim, "shop", absent=False)
    await steps.patch(Site, "shop", {"spec": {"image": "web:2"}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="data",
    families=(),
    finding="its data is lost",
)
