"""The finalizer fails if the record does not exist any more, as after a lost response."""

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

    @operator.finalize(Site)
    async def delete_record(site: Site) -> None:
        if not await records.delete(site.name) and not fixed:
            raise RuntimeError(f"the record {site.name} does not exist")

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("1m")
    await steps.delete(Site, "shop")
    await steps.wait(Site, "shop", absent=True)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="deletion",
    families=("crash", "external"),
    finding="shop",
)
