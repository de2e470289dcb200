"""The status is patched without a version: a leader that was paused writes an old status."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.client.patches import merge_patch
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await ctx.ensure([deployment(site)])
        if site.status.phase == site.spec.image:
            return
        status: dict[str, object] = {"status": {"phase": site.spec.image}}
        if fixed:
            status["metadata"] = {"resourceVersion": site.metadata.resource_version}
        await ctx.client.patch(
            Site, site.name, merge_patch(status), namespace=site.metadata.namespace, subresource="status"
        )

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Site, "shop", condition="{.status.phase}=web:1")
    await steps.patch(Site, "shop", {"spec": {"image": "web:2"}})
    await steps.advance("3m")


PLANTED = Planted(build=build, scenario=steps, topic="leader", families=("leader",), finding="late")
