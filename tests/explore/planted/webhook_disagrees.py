"""The webhook accepts more replicas than the reconciler can handle."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright import Context, FieldError, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.validate(Site)
    def validate(new: Site, old: Site | None) -> Iterator[FieldError]:
        if new.spec.replicas > (3 if fixed else 100):
            yield FieldError.invalid("spec.replicas", new.spec.replicas, "too many")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if site.spec.replicas > 3:
            raise ValueError(f"{site.spec.replicas} replicas are not supported")
        await ctx.ensure([deployment(site)])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(replicas=3))
    await steps.wait(Deployment, "shop", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="specs",
    families=("specs",),
    finding="spec.replicas",
)
