"""An error is logged and the reconcile returns normally: it is never retried."""

from __future__ import annotations

from kubewright import Context, Operator
from kubewright.api import APIError
from kubewright.client.errors import ConnectionFailed
from kubewright.explore import Steps, scenario

from .kinds import App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(App)
    async def reconcile(app: App, ctx: Context[App]) -> None:
        try:
            await ctx.apply(part(app.name, of=app))
        except (APIError, ConnectionFailed, TimeoutError):
            if fixed:
                raise
            ctx.log.warning("cannot apply the part")

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", absent=False)


PLANTED = Planted(build=build, scenario=steps, families=("errors", "timeout"), finding="Part a")
