"""An effect is added to a value before it is recorded as done: after a crash in between it is added again."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        generation = str(app.metadata.generation)
        total = await ctx.client.uncached.get(Part, "total", namespace=NAMESPACE)
        done = total.spec.settings.get(app.name) if fixed else app.status.phase
        if done != generation:
            total.spec.size += app.spec.replicas
            if fixed:
                total.spec.settings[app.name] = generation
            await ctx.client.update(total)
        app.status.phase = generation
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(part("total"))
    await steps.apply(app(replicas=3))
    await steps.wait(App, "a", condition="{.status.phase}=1")


PLANTED = Planted(build=build, scenario=steps, families=("crash", "timeout"), finding="size")
