"""A controller for the image and one for the schedule both set the replicas of the Deployment."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.client.patches import merge_patch
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, name="deploy")
    async def deploy(site: Site, ctx: Context[Site]) -> None:
        if (
            await ctx.client.uncached.get_or_none(Deployment, site.name, namespace=site.metadata.namespace)
            is None
        ):
            wanted = deployment(site)
            assert wanted.spec is not None
            if fixed:
                wanted.spec.replicas = 0 if site.spec.cache else site.spec.replicas
            await ctx.client.create(ctx.own(wanted))
        elif not fixed:
            change = merge_patch({"spec": {"replicas": site.spec.replicas}})
            await ctx.client.patch(Deployment, site.name, change, namespace=site.metadata.namespace)

    @operator.reconcile(Site, name="schedule", owns=(Deployment,))
    async def schedule(site: Site, ctx: Context[Site]) -> None:
        found = await ctx.client.uncached.get_or_none(
            Deployment, site.name, namespace=site.metadata.namespace
        )
        wanted = 0 if site.spec.cache else site.spec.replicas
        if found is not None and found.spec is not None and found.spec.replicas != wanted:
            change = merge_patch({"spec": {"replicas": wanted}})
            await ctx.client.patch(Deployment, site.name, change, namespace=site.metadata.namespace)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=3, cache=True))
    await steps.wait(Deployment, "shop", absent=False)
    await steps.patch(Site, "shop", {"spec": {"replicas": 2}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, topic="two writers", families=(), finding="spec.replicas")
