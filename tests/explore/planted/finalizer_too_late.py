"""The finalizer is added after the external resource: an app that is deleted in between leaves it behind."""

from __future__ import annotations

from kubewright import Manager, Operator, Request
from kubewright.api import AlreadyExists, NotFound
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
            if is_deleting(app):
                if has_finalizer(app, FINALIZER):
                    await client.delete(Part, app.name, namespace=EXTERNAL, missing_ok=True)
                    await set_finalizers(app, [])
                return
            try:
                if fixed and not has_finalizer(app, FINALIZER):
                    await set_finalizers(app, [FINALIZER])
                if await client.uncached.get_or_none(Part, app.name, namespace=EXTERNAL) is None:
                    await client.create(part(app.name, namespace=EXTERNAL))
                if not has_finalizer(app, FINALIZER):
                    await set_finalizers(app, [FINALIZER])
            except (AlreadyExists, NotFound):
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
    families=(),
    finding="without an app",
)
