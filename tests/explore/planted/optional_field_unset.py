"""An optional field is used without a check: the reconcile fails for objects that do not set it."""

from __future__ import annotations

from typing import Any

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        settings: Any = (app.spec.settings or {}) if fixed else app.spec.settings
        size = 1 + len(settings.get("mode", ""))
        await ctx.ensure([part(app.name, of=app, size=size)])

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app(settings={"mode": "fast"}))
    await steps.wait(Part, "a", condition="{.spec.size}=5")
    await steps.patch(App, "a", {"spec": {"settings": None}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="AttributeError")
