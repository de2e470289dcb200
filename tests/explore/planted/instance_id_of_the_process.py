"""The pods have an identifier of the process of the operator: every restart replaces them."""

from __future__ import annotations

import uuid

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    identifiers: list[str] = []

    @operator.on_startup
    def draw() -> None:
        identifiers.append(uuid.uuid4().hex[:8])

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        by = (site.metadata.uid or "")[:8] if fixed else identifiers[-1]
        await ctx.ensure([deployment(site, annotations={"deployed-by": by})])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Deployment, "shop", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="restart",
    variation="restart",
    finding="deployed-by",
)
