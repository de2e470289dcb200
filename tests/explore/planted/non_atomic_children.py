"""Two children are created in one branch: after a crash between them, the second one is never created."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        first, second = f"{app.name}-first", f"{app.name}-second"
        if await ctx.client.get_or_none(Part, first, namespace=NAMESPACE) is None:
            await ctx.client.create(ctx.own(part(first, of=app)))
            if not fixed:
                await ctx.client.create(ctx.own(part(second, of=app)))
        if fixed and await ctx.client.get_or_none(Part, second, namespace=NAMESPACE) is None:
            await ctx.client.create(ctx.own(part(second, of=app)))

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a-second", absent=False)


PLANTED = Planted(build=build, scenario=steps, families=("crash",), finding="a-second")
