"""What was set up is remembered by name: a site that is deleted and created again quickly is skipped."""

from __future__ import annotations

from kubewright import Manager, Operator, Request
from kubewright.controller import ControllerBuilder
from kubewright.explore import ExternalFake, Steps, scenario
from kubewright.manifests.crds import crd

from .kinds import Planted
from .sites import Site, site

records = ExternalFake("accounts")


def build(fixed: bool) -> Operator:
    operator = Operator("planted")
    known: dict[str, str] = {}

    @operator.on_startup
    def add_controller(manager: Manager) -> None:
        client = manager.client

        async def reconcile(request: Request) -> None:
            site = await client.get_or_none(Site, request.name, namespace=request.namespace)
            if site is None:
                known.pop(request.name, None)
                await records.delete(request.name)
                return
            uid = site.metadata.uid or ""
            if request.name not in known or (fixed and known[request.name] != uid):
                await records.put(request.name, {"uid": uid, "image": site.spec.image})
                known[request.name] = uid

        ControllerBuilder[Request](manager, "sites").for_(Site).complete(reconcile)

    return operator


@scenario(setup=[dict(crd(Site))])
async def steps(steps: Steps) -> None:
    await steps.apply(site())
    await steps.advance("1m")


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="repeated",
    variation="create-again:quick",
    finding="account",
)
