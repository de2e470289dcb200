"""The status reports success before the child exists: after a crash in between, it is never created."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if app.status.phase == "Ready":
            return
        if fixed:
            await ctx.apply(part(app.name, of=app))
        app.status.phase = "Ready"
        await ctx.update_status()
        if not fixed:
            await ctx.apply(part(app.name, of=app))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(App, "a", condition="{.status.phase}=Ready")
    await steps.wait(Part, "a", absent=False)


PLANTED = Planted(build=build, scenario=steps, families=(), finding="before the same reconcile")
