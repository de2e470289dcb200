"""The image is part of the selector of the Deployment, which cannot be changed."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        wanted = deployment(site)
        assert wanted.spec is not None
        assert wanted.spec.template.metadata is not None
        if not fixed:
            labels = {"site": site.name, "team": site.spec.team or "none"}
            wanted.spec.selector.match_labels = labels
            wanted.spec.template.metadata.labels = labels
        await ctx.ensure([wanted])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(team="blue"))
    await steps.wait(Deployment, "shop", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="specs",
    families=("specs",),
    finding="spec.team",
)
