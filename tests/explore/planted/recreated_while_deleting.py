"""Children are deleted by the finalizer, and created again because deletion is not checked first."""

from __future__ import annotations

from kubewright import Manager, Operator, Request, Result
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.api.owners import set_controller_reference
from kubewright.client.patches import merge_patch
from kubewright.controller import ControllerBuilder
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, config_map, site

FINALIZER = "planted.example.com/children"


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.on_startup
    def add_controller(manager: Manager) -> None:
        client = manager.client

        async def set_finalizers(site: Site, finalizers: list[str]) -> None:
            lock = {"resourceVersion": site.metadata.resource_version, "finalizers": finalizers}
            await client.patch(site, merge_patch({"metadata": lock}))

        async def ensure_child(site: Site) -> None:
            name = f"{site.name}-settings"
            if await client.get_or_none(ConfigMap, name, namespace=request_namespace(site)) is None:
                child = config_map(name, site, replicas=str(site.spec.replicas))
                set_controller_reference(site, child)
                await client.create(child)

        async def reconcile(request: Request) -> Result | None:
            site = await client.get_or_none(Site, request.name, namespace=request.namespace)
            if site is None:
                return None
            if not fixed:
                await ensure_child(site)
            if is_deleting(site):
                name = f"{site.name}-settings"
                found = await client.uncached.get_or_none(ConfigMap, name, namespace=request.namespace)
                if found is not None:
                    await client.delete(ConfigMap, name, namespace=request.namespace, missing_ok=True)
                    return Result(requeue_after=5)
                if has_finalizer(site, FINALIZER):
                    await set_finalizers(site, [])
                return None
            if not has_finalizer(site, FINALIZER):
                await set_finalizers(site, [FINALIZER])
                return None
            await ensure_child(site)
            return None

        ControllerBuilder[Request](manager, "sites").for_(Site).owns(ConfigMap).complete(reconcile)

    return operator


def request_namespace(site: Site) -> str:
    return site.metadata.namespace or ""


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.wait(ConfigMap, "shop-settings", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="deletion",
    variation="deletion",
    finding="more than",
)
