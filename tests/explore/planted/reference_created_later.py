"""A site whose ConfigMap does not exist yet is Pending, and the create of the ConfigMap is not watched."""

from __future__ import annotations

from kubewright import Context, Operator, Request
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, Planted
from .sites import Site, deployment, site, user_config


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        name = site.spec.config_name or ""
        found = await ctx.client.uncached.get_or_none(ConfigMap, name, namespace=NAMESPACE)
        if found is None:
            site.status.phase = "Pending"
            await ctx.update_status()
            return
        await ctx.ensure([deployment(site)])
        site.status.phase = "Ready"
        await ctx.update_status()

    if fixed:

        @operator.watches(ConfigMap)
        async def sites_of(settings: ConfigMap, client: Client) -> list[Request]:
            sites = await client.list(Site, namespace=NAMESPACE)
            return [Request.of(each) for each in sites]

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(user_config(theme="dark"))
    await steps.apply(site(config_name="settings"))
    await steps.wait(Site, "shop", condition="{.status.phase}=Ready")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="not watched",
    variation="late:ConfigMap default/settings",
    finding="Pending",
)
