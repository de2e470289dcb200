"""A timeout of a create is treated as a failure and repeated: the first request was applied."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api import AlreadyExists, APIError
from kubewright.client.errors import ConnectionFailed
from kubewright.explore import Steps, no_duplicate_children, scenario

from .kinds import App, Part, Planted, app, generated, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App, owns=(Part,))
    async def reconcile(app: App, ctx: Context[App]) -> None:
        if app.status.phase == "Ready":
            return
        for _ in range(3):
            new = part(app.name, of=app) if fixed else generated(f"{app.name}-", of=app)
            try:
                await ctx.client.create(ctx.own(new))
            except AlreadyExists:
                pass
            except (APIError, ConnectionFailed, TimeoutError):
                continue
            app.status.phase = "Ready"
            await ctx.update_status()
            return
        raise RuntimeError("the part cannot be created")

    return operator


@scenario(invariants=[no_duplicate_children(Part)])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(App, "a", condition="{.status.phase}=Ready")


PLANTED = Planted(build=build, scenario=steps, families=("timeout",), finding="duplicate children")
