"""A checksum of a Secret is part of the pods, and Secrets are not watched: a rotation has no effect."""

from __future__ import annotations

import hashlib

from kubewright import Context, Operator, Request
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import Secret
from kubewright.client import Client
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, Planted
from .sites import Site, deployment, site, user_secret


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        secret = await ctx.client.uncached.get(Secret, site.spec.secret_name or "", namespace=NAMESPACE)
        checksum = hashlib.sha256(repr(sorted((secret.data or {}).items())).encode()).hexdigest()
        await ctx.ensure([deployment(site, annotations={"checksum": checksum[:12]})])

    if fixed:

        @operator.watches(Secret)
        async def sites_of(secret: Secret, client: Client) -> list[Request]:
            sites = await client.list(Site, namespace=NAMESPACE)
            return [Request.of(each) for each in sites if each.spec.secret_name == secret.metadata.name]

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(user_secret(password="one"))
    await steps.apply(site(secret_name="tls"))
    await steps.wait(Deployment, "shop", absent=False)
    await steps.patch(Secret, "tls", {"stringData": {"password": "two"}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="not watched",
    variation="restart",
    finding="checksum",
)
