"""Every reconcile writes a new value into the status, which triggers the next one."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import App, Planted, app


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if fixed and app.status.observed_generation == app.metadata.generation:
            return
        app.status.observed_generation = app.metadata.generation
        app.status.count = (app.status.count or 0) + 1
        await ctx.update_status()

    return operator


@scenario(tolerate=["App:status.count"])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="hot loop")
