"""A conflict is ignored because "the next event will fix it": there is no next event."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api import Conflict
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        found = await ctx.client.uncached.get_or_none(Part, app.name, namespace=NAMESPACE)
        if found is None:
            found = await ctx.client.create(ctx.own(part(app.name, of=app)))
        if found.spec.size == app.spec.replicas:
            return
        found.spec.size = app.spec.replicas
        try:
            await ctx.client.update(found)
        except Conflict:
            if fixed:
                raise

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app(replicas=1))
    await steps.wait(Part, "a", condition="{.spec.size}=1")
    await steps.patch(App, "a", {"spec": {"replicas": 2}})
    await steps.wait(Part, "a", condition="{.spec.size}=2")


PLANTED = Planted(build=build, scenario=steps, families=("conflict",), finding="Part a")
