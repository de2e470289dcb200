"""The identifier of an external resource is stored after it was created: a crash creates another one."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ExternalFake, Steps, scenario

from .kinds import Planted
from .sites import Site, site

databases = ExternalFake("databases")


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if site.status.resource_id is not None:
            return
        if fixed:
            identifier = f"db-{site.metadata.uid}"
        else:
            identifier = f"db-{len(await databases.list())}"
        await databases.create(identifier, site.name)
        site.status.resource_id = identifier
        await ctx.update_status()

    @operator.finalize(Site)
    async def delete(site: Site) -> None:
        for key, name in (await databases.list()).items():
            if name == site.name:
                await databases.delete(key)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Site, "shop", condition="{.metadata.generation}=1")
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="crash",
    families=("crash",),
    finding="databases",
)
