"""The finalizer is removed before the external resource: after a crash in between, it is never removed."""

from __future__ import annotations

from kubewright import Manager, Operator, Request
from kubewright.api import NotFound
from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.client.patches import merge_patch
from kubewright.controller import ControllerBuilder
from kubewright.explore import Steps, scenario

from .kinds import CRDS, EXTERNAL, EXTERNAL_NAMESPACE, App, Part, Planted, app, no_records_without_apps, part

FINALIZER = "planted.example.com/record"


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.on_startup
    def add_controller(manager: Manager) -> None:
        client = manager.client

        async def set_finalizers(app: App, finalizers: list[str]) -> None:
            lock = {"resourceVersion": app.metadata.resource_version, "finalizers": finalizers}
            await client.patch(app, merge_patch({"metadata": lock}))

        async def reconcile(request: Request) -> None:
            app = await client.get_or_none(App, request.name, namespace=request.namespace)
            if app is None:
                return
            try:
                if not is_deleting(app):
                    if not has_finalizer(app, FINALIZER):
                        await set_finalizers(app, [FINALIZER])
                    await client.apply(part(app.name, namespace=EXTERNAL))
                elif has_finalizer(app, FINALIZER):
                    if not fixed:
                        await set_finalizers(app, [])
                    await client.delete(Part, app.name, namespace=EXTERNAL, missing_ok=True)
                    if fixed:
                        await set_finalizers(app, [])
            except NotFound:
                return

        ControllerBuilder[Request](manager, "apps").for_(App).complete(reconcile)

    return operator


@scenario(setup=[*CRDS, EXTERNAL_NAMESPACE], invariants=[no_records_without_apps])
async def steps(steps: Steps) -> None:
    await steps.apply(app())
    await steps.wait(Part, "a", namespace=EXTERNAL, absent=False)
    await steps.delete(App, "a")
    await steps.wait(App, "a", absent=True)


PLANTED = Planted(
    build=build,
    scenario=steps,
    families=("crash",),
    finding="without an app",
)
