"""The quick start: a cluster-wide guestbook with bounds and an enum."""

from __future__ import annotations

from typing import Annotated, Literal

from kubewright.api.declarations import Column, resource
from kubewright.api.markers import Ge, Le, MaxLen, MinLen
from kubewright.api.meta import CustomResource
from kubewright.api.objects import Spec, Status


class GuestbookSpec(Spec):
    """What the guestbook should be."""

    size: Annotated[int, Ge(1), Le(10)]
    """How many instances to run."""

    config_map_name: Annotated[str, MinLen(1), MaxLen(15)]
    """The ConfigMap that holds the settings."""

    type: Literal["Phone", "Address", "Name"] | None = None
    """What guests write down."""


class GuestbookStatus(Status):
    """What was seen of the guestbook."""

    active: str | None = None
    """The name of the active pod."""

    standby: list[str] | None = None
    """The names of the pods that stand by."""


@resource(
    group="webapp.my.domain",
    version="v1",
    scope="Cluster",
    short_names=("gb",),
    columns=(Column("Size", ".spec.size", "integer"), Column("Age", ".metadata.creationTimestamp", "date")),
)
class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus]):
    """A guestbook."""
