"""A DNS record is created without a finalizer: it outlives the site."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ExternalFake, Steps, scenario

from .kinds import Planted
from .sites import Site, site

records = ExternalFake("dns")


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if await records.get(site.name) is None:
            await records.create(site.name, "10.0.0.1")

    if fixed:

        @operator.finalize(Site)
        async def delete_record(site: Site) -> None:
            await records.delete(site.name)

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
    finding="external dns shop",
)
