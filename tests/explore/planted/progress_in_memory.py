"""The progress of a procedure with several steps is in memory: after a crash it is never finished."""

from __future__ import annotations

from kubewright import Context, Operator, Result
from kubewright.explore import Steps, scenario

from .kinds import App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> Result | None:
        if app.status.phase is None:
            await ctx.apply(part(f"{app.name}-backup", of=app))
            ctx.memory["backup"] = True
            app.status.phase = "BackedUp"
            await ctx.update_status()
            return Result(requeue_after=10)
        if app.status.phase == "BackedUp" and (fixed or ctx.memory.get("backup")):
            await ctx.apply(part(f"{app.name}-upgrade", of=app))
            app.status.phase = "Done"
            await ctx.update_status()
        return None

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(App, "a", condition="{.status.phase}=Done")
    await steps.wait(Part, "a-upgrade", absent=False)


PLANTED = Planted(build=build, scenario=steps, families=("crash",), finding="App a")
