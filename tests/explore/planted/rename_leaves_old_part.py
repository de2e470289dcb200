"""The name of the child is a field of the spec: after a change of it, the old child remains."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, no_duplicate_children, scenario

from .kinds import App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        new = part(app.spec.part_name or app.name, of=app)
        if fixed:
            await ctx.ensure([new])
        else:
            await ctx.apply(new)

    return operator


@scenario(invariants=[no_duplicate_children(Part, when="end")])
async def steps(steps: Steps) -> None:
    await steps.apply(app(part_name="old"))
    await steps.wait(Part, "old", absent=False)
    await steps.patch(App, "a", {"spec": {"partName": "new"}})
    await steps.wait(Part, "new", absent=False)


PLANTED = Planted(build=build, scenario=steps, families=(), finding="duplicate children")
