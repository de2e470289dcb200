"""The age becomes the port of a Service, whose limits the schema does not have."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright import Context, FieldError, Operator
from kubewright.api.core.v1 import Service, ServicePort, ServiceSpec
from kubewright.explore import Steps, scenario

from .kinds import Planted
from .sites import Site, meta, site


def build(fixed: bool) -> Operator:
    operator = Operator("planted")

    @operator.reconcile(Site, owns=(Service,))
    async def reconcile(site: Site, ctx: Context[Site]) -> None:
        ports = ServiceSpec(ports=[ServicePort(port=site.spec.max_age or 80)])
        await ctx.ensure([Service(metadata=meta(site.name, site), spec=ports)])

    if fixed:

        @operator.validate(Site)
        def validate(new: Site, old: Site | None) -> Iterator[FieldError]:
            if new.spec.max_age is not None and not 0 < new.spec.max_age < 65536:
                yield FieldError.invalid("spec.maxAge", new.spec.max_age, "must be a port")

    return operator


@scenario
async def steps(steps: Steps) -> None:
    await steps.apply(site(max_age=8080))
    await steps.wait(Service, "shop", absent=False)


PLANTED = Planted(
    build=build,
    scenario=steps,
    topic="specs",
    families=("specs",),
    finding="spec.maxAge",
)
