"""The finalizer waits until a volume does not exist any more, and nothing deletes it."""

from __future__ import annotations

from kubewright import Context, Operator, Result
from kubewright.explore import ExternalFake, Steps, scenario

from .kinds import Planted
from .sites import Site, site

volumes = ExternalFake("volumes")


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if await volumes.get(site.name) is None:
            await volumes.create(site.name, {"gigabytes": 1})

    @operator.finalize(Site)
    async def wait_for_volume(site: Site) -> Result | None:
        if fixed:
            await volumes.delete(site.name)
        if await volumes.get(site.name) is not None:
            return Result(requeue_after=30)
        return None

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="deletion",
    variation="deletion",
    finding="shop",
)
