"""Missing children are counted in a list that may be old, and get generated names: there are too many."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import ClusterState, Steps, always, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, generated, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        client = ctx.client.uncached
        if not fixed:
            # Version 0 accepts any state that the API server has in its cache.
            page = await client.list_raw(Part, namespace=NAMESPACE, resource_version="0")
            for _ in range(app.spec.replicas - len(page.items)):
                await ctx.client.create(ctx.own(generated(f"{app.name}-", of=app)))
            return
        names = {each.name for each in await client.list(Part, namespace=NAMESPACE)}
        for index in range(app.spec.replicas):
            if f"{app.name}-{index}" not in names:
                await ctx.client.create(ctx.own(part(f"{app.name}-{index}", of=app)))

    return operator


@always
def not_too_many(state: ClusterState) -> str | None:
    count = len(state.of_kind(Part))
    return f"{count} parts exist for 2 replicas" if count > 2 else None


@scenario(invariants=[not_too_many])
async def steps(steps: Steps) -> None:
    await steps.apply(app(replicas=2))
    await steps.advance("1m")


PLANTED = Planted(build=build, scenario=steps, families=("stale",), finding="for 2 replicas")
