"""The Secret is rendered again for every change of the spec, with a new password."""

from __future__ import annotations

import secrets

from kubewright import Context, Operator
from kubewright.api.core.v1 import Secret
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, meta, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Secret,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        if site.status.observed_generation == site.metadata.generation:
            return
        name = f"{site.name}-admin"
        password = secrets.token_hex(8).encode()
        found = await ctx.client.uncached.get_or_none(Secret, name, namespace=site.metadata.namespace)
        if fixed and found is not None and found.data:
            password = found.data["password"]
        data = {"password": password, "replicas": str(site.spec.replicas).encode()}
        await ctx.apply(Secret(metadata=meta(name, site), data=data))
        site.status.observed_generation = site.metadata.generation
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Secret, "shop-admin", absent=False)
    await steps.patch(Site, "shop", {"spec": {"replicas": 2}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="generated values",
    variation="control",
    finding="password",
)
