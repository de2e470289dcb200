"""Two replicas act as the leader for a moment, and each creates a child with a generated name."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.explore import Steps, no_duplicate_children, scenario

from .kinds import NAMESPACE, App, Part, Planted, app, generated, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    operator.settings.leader_election = True

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        found = await ctx.client.uncached.list(Part, namespace=NAMESPACE, labels={"app": app.name})
        if found:
            return
        new = part(app.name, of=app) if fixed else generated(f"{app.name}-", of=app)
        await ctx.client.create(ctx.own(new))

    return operator


@scenario(invariants=[no_duplicate_children(Part)])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.advance("2m")


PLANTED = Planted(build=build, scenario=steps, families=("leader",), finding="duplicate children")
