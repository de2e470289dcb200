"""A vertical autoscaler: quantities, maps of quantities, durations, references, rules across fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.api import (
    Cel,
    Column,
    Condition,
    CustomResource,
    Duration,
    Ge,
    Int32,
    LabelSelector,
    ListMap,
    MaxItems,
    MinLen,
    Quantity,
    Spec,
    Status,
    Struct,
    Time,
    field,
    mark,
    resource,
)


class UpdateMode(StrEnum):
    """When recommendations are applied."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    AUTO = "Auto"


class TargetRef(Struct):
    """Reference to the scaled workload."""

    api_version: str | None = None
    kind: Annotated[str, MinLen(1)]
    name: Annotated[str, MinLen(1)]


class UpdatePolicy(Struct):
    """How changes are applied to pods."""

    update_mode: UpdateMode = UpdateMode.AUTO
    min_replicas: Annotated[Int32, Ge(1)] | None = None
    grace: Duration = Duration("5m")


@mark(
    Cel(
        "self.containerName != '*' || !has(self.minAllowed)",
        message="a lower bound needs the name of its container",
        reason="FieldValueForbidden",
        field_path=".minAllowed",
    )
)
class ContainerPolicy(Struct):
    """Bounds of one container; the name `*` selects all other containers."""

    container_name: Annotated[str, MinLen(1)]
    min_allowed: dict[str, Quantity] | None = None
    max_allowed: dict[str, Quantity] | None = None


class AutoscalerSpec(Spec):
    """The workload to scale and the bounds of its containers."""

    target_ref: TargetRef
    selector: LabelSelector | None = None
    update_policy: UpdatePolicy = field(default_factory=UpdatePolicy)
    containers: Annotated[list[ContainerPolicy], ListMap("containerName"), MaxItems(100)] | None = None


class Recommendation(Struct):
    """Recommended requests of one container."""

    container_name: str
    target: dict[str, Quantity]
    at: Time | None = None


class AutoscalerStatus(Status):
    """The current recommendation."""

    recommendations: Annotated[list[Recommendation], ListMap("containerName")] | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(
    group="autoscaling.example.com",
    version="v1",
    kind="VerticalAutoscaler",
    short_names=("va",),
    columns=(
        Column("Mode", ".spec.updatePolicy.updateMode"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    ),
)
class Autoscaler(CustomResource[AutoscalerSpec, AutoscalerStatus]):
    """Sets the resource requests of a workload from its usage."""
