"""The object that is reconciled first becomes the default, and the work queue decides which one that is."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import CRDS, NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        first = app.name
        if fixed:
            first = min(each.name for each in await ctx.cache.list(App, namespace=NAMESPACE))
        if await ctx.client.uncached.get_or_none(Part, "default", namespace=NAMESPACE) is None:
            await ctx.client.apply(part("default", settings={"app": first}))

    return operator


@scenario(setup=[*CRDS, app("a"), app("b")])
async def steps(steps: Steps) -> None:
    await steps.wait(Part, "default", namespace=NAMESPACE, absent=False)
    await steps.advance("1m")


PLANTED = Planted(
    build=build, scenario=steps, families=("reorder",), finding="spec.settings.app is 'b' instead of 'a'"
)
