"""Static sites: a web server for the pages in the spec. `templates` renders the objects."""

from pathlib import Path
from typing import Annotated

from kubewright import Column, Condition, CustomResource, Operator, Spec, Status, resource
from kubewright.api import Default, Ge, Le, ListMap, Struct, field


class SiteService(Struct):
    """The Service of the site."""

    enabled: bool = True
    port: Annotated[int, Ge(1), Le(65535)] = 80


class StaticSiteSpec(Spec):
    """Values of the templates."""

    replicas: Annotated[int, Ge(0)] = 1
    image: str = "nginx:1.27"
    pages: dict[str, str] | None = None
    """Files to serve, by name."""
    service: Annotated[SiteService, Default({})] = field(default_factory=SiteService)


class StaticSiteStatus(Status):
    """State of the objects."""

    observed_generation: int | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(
    group="web.example.com",
    version="v1",
    columns=(
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class StaticSite(CustomResource[StaticSiteSpec, StaticSiteStatus]):
    """A web site."""


operator = Operator("static-site")
operator.render(StaticSite, Path(__file__).parent / "templates")
