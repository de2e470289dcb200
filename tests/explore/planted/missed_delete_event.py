"""An external resource is removed when the delete event arrives: an operator that is down then misses it."""

from __future__ import annotations

from kubewright import Context, Manager, Operator, Request
from kubewright.controller import ControllerBuilder
from kubewright.explore import Steps, scenario

from .kinds import CRDS, EXTERNAL, EXTERNAL_NAMESPACE, App, Part, Planted, app, part


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    if fixed:

        @operator.reconcile(App)
        async def create_record(app: App, ctx: Context[App]) -> None:
            await ctx.client.apply(part(app.name, namespace=EXTERNAL))

        @operator.finalize(App)
        async def delete_record(app: App, ctx: Context[App]) -> None:
            await ctx.client.delete(Part, app.name, namespace=EXTERNAL, missing_ok=True)

        return operator

    @operator.on_startup
    def add_controller(manager: Manager) -> None:
        client = manager.client

        async def reconcile(request: Request) -> None:
            if await client.get_or_none(App, request.name, namespace=request.namespace) is None:
                await client.delete(Part, request.name, namespace=EXTERNAL, missing_ok=True)
            else:
                await client.apply(part(request.name, namespace=EXTERNAL))

        ControllerBuilder[Request](manager, "apps").for_(App).complete(reconcile)

    return operator


@scenario(setup=[*CRDS, EXTERNAL_NAMESPACE])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", namespace=EXTERNAL, absent=False)
    await steps.delete(App, "a")
    await steps.wait(App, "a", absent=True)


PLANTED = Planted(
    build=build,
    scenario=steps,
    families=("crash",),
    finding="external/a",
)
