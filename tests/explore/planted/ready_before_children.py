"""Ready is True as soon as the Deployment exists, while its pods cannot be scheduled."""

from __future__ import annotations

from kubewright import Condition, Context, Operator
from kubewright.api.apps.v1 import Deployment
from kubewright.api.conditions import set_condition
from kubewright.api.core.v1 import ResourceRequirements
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, deployment, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Deployment,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        wanted = deployment(site)
        assert wanted.spec is not None
        assert wanted.spec.template.spec is not None
        wanted.spec.template.spec.containers[0].resources = ResourceRequirements(requests={"cpu": "1000"})
        await ctx.ensure([wanted])
        found = await ctx.client.get_or_none(Deployment, site.name, namespace=site.metadata.namespace)
        status = found.status if found is not None else None
        available = (status.available_replicas or 0) if status is not None else 0
        is_ready = available >= site.spec.replicas if fixed else found is not None
        set_condition(
            site.status, Condition(type="Ready", status="True" if is_ready else "False", reason="Deployed")
        )
        await ctx.update_status()

    return operator


@scenario(controllers=True)
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(Deployment, "shop", absent=False)
    await steps.advance("5m")


PLANTED = Planted(build=build, scenario=steps, topic="status", families=(), finding="Ready is True")
