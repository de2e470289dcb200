"""The operator does not watch its Deployments: one that is deleted is not created again until a restart."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,) if fixed else ())
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await ctx.apply(deployment(site))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Deployment, "shop", absent=False)
    await steps.patch(Site, "shop", {"spec": {"replicas": 3}})
    await steps.wait(Deployment, "shop", condition="{.spec.replicas}=3")
    await steps.delete(Deployment, "shop")
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="not watched",
    variation="restart",
    finding="Deployment",
)
