"""Chapter 1: the type of a website."""

# --8<-- [start:imports]
from typing import Annotated

from kubewright import CustomResource, Spec, resource
from kubewright.api import Column, Ge, Le, MinLen

# --8<-- [end:imports]


# --8<-- [start:type]
class SiteSpec(Spec):
    """Desired state of a website."""

    html: Annotated[str, MinLen(1)]
    """Content of the front page."""

    replicas: Annotated[int, Ge(1), Le(5)] = 1
    """Number of web servers."""


@resource(group="web.example.com", version="v1", columns=(Column("Replicas", ".spec.replicas", "integer"),))
class Site(CustomResource[SiteSpec, None]):
    """A website with one page."""


# --8<-- [end:type]
