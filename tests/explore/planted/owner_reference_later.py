"""The owner reference is set by a second write: after a crash in between, the child is never deleted."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, no_orphans, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if await ctx.client.uncached.get_or_none(Part, app.name, namespace=NAMESPACE) is not None:
            return
        new = part(app.name, of=app)
        created = await ctx.client.create(ctx.own(new) if fixed else new)
        if not fixed:
            await ctx.client.update(ctx.own(created))

    return operator


@scenario(invariants=[no_orphans(Part)])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", absent=False)
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=("crash", "errors"), finding="has no owner")
