"""A list with a limit is read without its continue token: objects after the first page are not counted."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ClusterState, Steps, at_end, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if fixed:
            count = len(await ctx.client.uncached.list(Part, namespace=NAMESPACE, page_size=2))
        else:
            count = len((await ctx.client.uncached.list_raw(Part, namespace=NAMESPACE, limit=2)).items)
        app.status.count = count
        await ctx.update_status()

    return operator


@at_end
def all_parts_are_counted(state: ClusterState) -> str | None:
    counted = [each.get("status", "count") for each in state.of_kind(App)]
    count = len(state.of_kind(Part))
    return f"{count} parts exist, and {counted[0]} are counted" if counted != [count] else None


@scenario(invariants=[all_parts_are_counted])
async def steps(steps: Steps) -> None:
    for index in range(3):
        await steps.apply(part(f"part-{index}"))
    await steps.apply(app())
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=(), finding="are counted")
