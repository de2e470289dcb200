"""observedGeneration is taken from a second read: a change in between is reported as done, and is not."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if app.status.observed_generation == app.metadata.generation:
            return
        await ctx.apply(part(app.name, of=app, size=app.spec.replicas))
        if fixed:
            app.status.observed_generation = app.metadata.generation
            await ctx.update_status()
            return
        current = await ctx.client.uncached.get(App, app.name, namespace=NAMESPACE)
        current.status.observed_generation = current.metadata.generation
        await ctx.client.update_status(current)

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app(replicas=1))
    await steps.wait(Part, "a", absent=False)
    await steps.patch(App, "a", {"spec": {"replicas": 2}})
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    families=("stale", "reorder"),
    finding="size",
)
