"""Settings are merged into the child and never removed: a setting that the user removes keeps its effect."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ClusterState, Steps, at_end, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        wanted = app.spec.settings or {}
        found = await ctx.client.get_or_none(Part, app.name, namespace=NAMESPACE)
        if found is None:
            await ctx.client.create(ctx.own(part(app.name, of=app, settings=wanted)))
            return
        settings = wanted if fixed else {**found.spec.settings, **wanted}
        if found.spec.settings != settings:
            found.spec.settings = settings
            await ctx.client.update(found)

    return operator


@at_end
def settings_are_those_of_the_app(state: ClusterState) -> str | None:
    wanted = [each.get("spec", "settings") for each in state.of_kind(App)]
    found = [each.get("spec", "settings") for each in state.of_kind(Part)]
    return f"the settings are {found[:1]}, not {wanted}" if found != wanted else None


@scenario(invariants=[settings_are_those_of_the_app])
async def steps(steps: Steps) -> None:
    await steps.apply(app(settings={"mode": "fast", "debug": "yes"}))
    await steps.wait(Part, "a", absent=False)
    await steps.patch(App, "a", {"spec": {"settings": {"debug": None}}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="the settings are")
