"""Settings are read from a ConfigMap of the user that is not watched; the scenario never changes it."""

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
        settings = await ctx.client.uncached.get(ConfigMap, site.spec.config_name or "", namespace=NAMESPACE)
        await ctx.ensure([deployment(site, annotations={"theme": (settings.data or {}).get("theme", "")})])

    if fixed:

        @operator.watches(ConfigMap)
        async def sites_of(settings: ConfigMap, client: Client) -> list[Request]:
            sites = await client.list(Site, namespace=NAMESPACE)
            return [Request.of(each) for each in sites]

    return operator


@scenario(setup=[user_config(theme="dark")])
async def steps(steps: Steps) -> None:
    await steps.apply(site(config_name="settings"))
    await steps.wait(Deployment, "shop", absent=False)
    await steps.patch(Site, "shop", {"spec": {"replicas": 2}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="not watched",
    variation="input:ConfigMap default/settings",
    finding="theme",
)
