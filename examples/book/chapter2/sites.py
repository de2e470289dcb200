"""Chapter 2: a controller."""

from typing import Annotated

from kubewright import Context, CustomResource, Operator, Spec, resource
from kubewright.api import Column, Ge, Le, MinLen


class SiteSpec(Spec):
    """Desired state of a website."""

    html: Annotated[str, MinLen(1)]
    """Content of the front page."""

    replicas: Annotated[int, Ge(1), Le(5)] = 1
    """Number of web servers."""


@resource(group="web.example.com", version="v1", columns=(Column("Replicas", ".spec.replicas", "integer"),))
class Site(CustomResource[SiteSpec, None]):
    """A website with one page."""


# --8<-- [start:controller]
operator = Operator("sites")


@operator.reconcile(Site)
async def reconcile(site: Site, ctx: Context[Site]) -> None:
    """Say hello; chapter 3 creates objects."""
    ctx.log.info("reconciled site", extra={"replicas": site.spec.replicas})
    ctx.event("Normal", "Reconciled", f"{len(site.spec.html)} characters")


# --8<-- [end:controller]
