"""A kind with the scale subresource and selectable fields."""

from __future__ import annotations

from typing import Annotated

from kubewright.api import Column, CustomResource, Ge, Int32, Scale, Spec, Status, resource


class PoolSpec(Spec):
    """Desired state of a worker pool."""

    replicas: Annotated[Int32, Ge(0)] = 1
    colour: str
    paused: bool = False


class PoolStatus(Status):
    """Observed state of a worker pool."""

    replicas: Int32 | None = None
    selector: str | None = None


@resource(
    group="work.example.com",
    version="v1",
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    selectable_fields=(".spec.colour", ".spec.paused"),
    columns=(
        Column("Desired", ".spec.replicas", "integer"),
        Column("Current", ".status.replicas", "integer"),
    ),
    labels={"team": "work"},
)
class Pool(CustomResource[PoolSpec, PoolStatus]):
    """A pool of workers."""
