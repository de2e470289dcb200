"""Only changes of the generation are reconciled, and the operator also reads an annotation."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.controller.predicates import generation_changed
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,), predicates=() if fixed else (generation_changed,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        restarted = (site.metadata.annotations or {}).get("example.com/restarted-at", "never")
        await ctx.ensure([deployment(site, annotations={"restarted-at": restarted})])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Deployment, "shop", absent=False)
    await steps.patch(Site, "shop", {"metadata": {"annotations": {"example.com/restarted-at": "monday"}}})
    await steps.advance("5m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="not watched",
    variation="restart",
    finding="restarted-at",
)
