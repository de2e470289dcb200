"""A generated name is stored in the status after the create: a crash in between causes a second child."""

from __future__ import annotations

from typing import Any

from kubewright import Context, Operator
from kubewright.explore import Steps, no_duplicate_children, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, generated, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if app.status.part is not None:
            return
        if fixed:
            name = f"{app.name}-part"
            created = await ctx.client.get_or_none(Part, name, namespace=NAMESPACE)
            if created is None:
                created = await ctx.client.create(ctx.own(part(name, of=app)))
        else:
            created = await ctx.client.create(ctx.own(generated(f"{app.name}-", of=app)))
        app.status.part = created.name
        await ctx.update_status()

    return operator


def has_part(obj: Any) -> bool:
    return obj is not None and obj.status.part is not None


@scenario(invariants=[no_duplicate_children(Part)])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(App, "a", condition=has_part)


PLANTED = Planted(build=build, scenario=steps, families=("crash", "timeout"), finding="duplicate children")
