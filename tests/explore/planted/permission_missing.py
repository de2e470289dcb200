"""The operator reads a kind without a declared RBAC rule: it works in tests and fails in the cluster."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, permissions_declared, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,) if fixed else ())
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if await ctx.client.uncached.get_or_none(Part, app.name, namespace=NAMESPACE) is None:
            await ctx.client.create(ctx.own(part(app.name, of=app)))

    return operator


@scenario(invariants=[permissions_declared()])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", absent=False)


PLANTED = Planted(build=build, scenario=steps, families=(), finding="no rule allows")
