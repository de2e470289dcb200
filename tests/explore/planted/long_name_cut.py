"""Names of external databases are cut to 40 characters."""

from __future__ import annotations

import hashlib

from kubewright import Context, Operator
from kubewright.explore import ExternalFake, Steps, scenario

from .kinds import Planted
from .sites import Site, site

databases = ExternalFake("databases")


def database_of(site: Site, fixed: bool) -> str:
    name = f"{site.metadata.namespace}-{site.name}"[:40]
    return f"{name}-{hashlib.sha256(site.name.encode()).hexdigest()[:8]}" if fixed else name


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        await databases.put(database_of(site, fixed), {"owner": site.name})

    @operator.finalize(Site)
    async def drop(site: Site) -> None:
        await databases.delete(database_of(site, fixed))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="two instances",
    variation="collisions",
    finding="external",
)
