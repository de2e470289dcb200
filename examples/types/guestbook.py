"""The quick start: a cluster-wide guestbook with bounds and an enum."""

from __future__ import annotations

from typing import Annotated, Literal

from kubewright.api import Column, CustomResource, Ge, Le, MaxLen, MinLen, Spec, Status, resource


class GuestbookSpec(Spec):
    """Desired state of a guestbook."""

    size: Annotated[int, Ge(1), Le(10)]
    """Number of instances."""

    config_map_name: Annotated[str, MinLen(1), MaxLen(15)]
    """Name of the ConfigMap with the settings."""

    type: Literal["Phone", "Address", "Name"] | None = None
    """Type of the entries."""


class GuestbookStatus(Status):
    """Observed state of a guestbook."""

    active: str | None = None
    """Name of the active pod."""

    standby: list[str] | None = None
    """Names of the standby pods."""


@resource(
    group="webapp.my.domain",
    version="v1",
    scope="Cluster",
    short_names=("gb",),
    columns=(Column("Size", ".spec.size", "integer"), Column("Age", ".metadata.creationTimestamp", "date")),
)
class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus]):
    """A guestbook."""
