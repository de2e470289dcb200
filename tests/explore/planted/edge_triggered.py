"""The operator must see an intermediate state of the spec: it does not if two changes are seen as one."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        settings = app.spec.settings or {}
        found = await ctx.client.uncached.get_or_none(Part, app.name, namespace=NAMESPACE)
        size = found.spec.size if found is not None else 0
        if fixed:
            size = int(settings.get("rotation", "0"))
        elif settings.get("rotate") == "yes" and app.status.phase != "Rotated":
            size = 1
        if found is None or found.spec.size != size:
            await ctx.apply(part(app.name, of=app, size=size))
        app.status.phase = "Rotated" if settings.get("rotate") == "yes" else "Idle"
        await ctx.update_status()

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app(settings={"rotate": "no", "rotation": "0"}))
    await steps.advance("1m")
    await steps.patch(App, "a", {"spec": {"settings": {"rotate": "yes", "rotation": "1"}}})
    await steps.advance("1m")
    await steps.patch(App, "a", {"spec": {"settings": {"rotate": "no"}}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=("unobserved", "stale"), finding="size")
