"""The operator creates its objects again in a namespace that is being deleted."""

from __future__ import annotations

from kubewright import Context, ObjectMeta, Operator, Result
from kubewright.api import APIError
from kubewright.api.core.v1 import ConfigMap, Namespace
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, site

TENANT = Namespace(metadata=ObjectMeta(name="tenant", finalizers=["example.com/billing"]))


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> Result | None:
        tenant = await ctx.client.uncached.get_or_none(Namespace, "tenant")
        if tenant is None or (fixed and tenant.metadata.deletion_timestamp is not None):
            return None
        metadata = ObjectMeta(name=f"{site.name}-limits", namespace="tenant")
        found = await ctx.client.uncached.get_or_none(ConfigMap, metadata.name or "", namespace="tenant")
        if found is None:
            try:
                await ctx.client.create(ConfigMap(metadata=metadata, data={"cpu": "1"}))
            except APIError as error:
                ctx.log.info("retrying: %s", error)
        return Result(requeue_after=20)

    return operator


@scenario(setup=[TENANT])
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-limits", namespace="tenant", absent=False)
    await steps.delete(Namespace, "tenant")
    await steps.advance("10m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="deletion",
    families=(),
    finding="terminating",
)
