"""A child in another namespace refers to its owner, which the garbage collector does not find there."""

from __future__ import annotations

from kubewright import Context, ObjectMeta, Operator
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import OwnerReference
from kubewright.explore import Steps, scenario

from .kinds import EXTERNAL, EXTERNAL_NAMESPACE, GROUP, Planted
from .sites import Site, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        owner = OwnerReference(
            api_version=f"{GROUP}/v1",
            kind="Site",
            name=site.name,
            uid=site.metadata.uid or "",
            controller=True,
        )
        metadata = ObjectMeta(
            name=route_of(site), namespace=EXTERNAL, owner_references=None if fixed else [owner]
        )
        await ctx.client.apply(ConfigMap(metadata=metadata, data={"image": site.spec.image}))

    @operator.finalize(Site)
    async def delete_route(site: Site, ctx: Context[Site]) -> None:
        await ctx.client.delete(ConfigMap, route_of(site), namespace=EXTERNAL, missing_ok=True)

    return operator


def route_of(site: Site) -> str:
    return f"{site.metadata.namespace}-{site.name}-route"


@scenario(setup=[EXTERNAL_NAMESPACE])
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="owner references",
    families=(),
    finding="namespace",
)
