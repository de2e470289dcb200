"""`if app.spec.replicas:` treats 0 as unset: scaling to zero has no effect."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ClusterState, Steps, at_end, scenario

from .kinds import App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if app.spec.replicas or fixed:
            parts = [part(f"{app.name}-{index}", of=app) for index in range(app.spec.replicas)]
            await ctx.ensure(parts)

    return operator


@at_end
def one_part_per_replica(state: ClusterState) -> str | None:
    wanted = sum(each.get("spec", "replicas") for each in state.of_kind(App))
    count = len(state.of_kind(Part))
    return f"{count} parts exist for {wanted} replicas" if count != wanted else None


@scenario(invariants=[one_part_per_replica])
async def steps(steps: Steps) -> None:
    await steps.apply(app(replicas=2))
    await steps.wait(Part, "a-1", absent=False)
    await steps.patch(App, "a", {"spec": {"replicas": 0}})
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="for 0 replicas")
