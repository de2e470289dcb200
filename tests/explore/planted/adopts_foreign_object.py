"""A child is applied with force without a look at its owner: an object of a user is overwritten."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api.owners import is_controlled_by
from kubewright.explore import ClusterState, Steps, always, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        existing = await ctx.client.uncached.get_or_none(Part, app.name, namespace=NAMESPACE)
        if fixed and existing is not None and not is_controlled_by(existing, app):
            app.status.phase = "NameIsTaken"
            await ctx.update_status()
            return
        if existing is None or existing.spec.size != app.spec.replicas:
            await ctx.apply(part(app.name, of=app, size=app.spec.replicas))

    return operator


@always
def objects_of_users_are_kept(state: ClusterState) -> str | None:
    found = state.get(Part, "a", namespace=NAMESPACE)
    return f"{found} was changed" if found is not None and found.get("spec", "size") != 7 else None


@scenario(invariants=[objects_of_users_are_kept])
async def steps(steps: Steps) -> None:
    await steps.apply(part("a", size=7))
    await steps.apply(app())
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="was changed")
