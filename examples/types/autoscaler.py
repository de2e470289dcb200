"""A vertical autoscaler: quantities, maps of them, durations, references, rules across fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.api.declarations import Column, resource
from kubewright.api.markers import Cel, Ge, Int32, ListMap, MaxItems, MinLen, mark
from kubewright.api.meta import Condition, CustomResource, LabelSelector
from kubewright.api.objects import Spec, Status, Struct, field
from kubewright.api.quantity import Quantity
from kubewright.api.times import Duration, Time


class UpdateMode(StrEnum):
    """When recommendations are put to work."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    AUTO = "Auto"


class TargetRef(Struct):
    """What is scaled."""

    api_version: str | None = None
    kind: Annotated[str, MinLen(1)]
    name: Annotated[str, MinLen(1)]


class UpdatePolicy(Struct):
    """How changes are rolled out."""

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
    """Bounds for one container; the name `*` is for all others."""

    container_name: Annotated[str, MinLen(1)]
    min_allowed: dict[str, Quantity] | None = None
    max_allowed: dict[str, Quantity] | None = None


class AutoscalerSpec(Spec):
    """What to scale and within which bounds."""

    target_ref: TargetRef
    selector: LabelSelector | None = None
    update_policy: UpdatePolicy = field(default_factory=UpdatePolicy)
    containers: Annotated[list[ContainerPolicy], ListMap("containerName"), MaxItems(100)] | None = None


class Recommendation(Struct):
    """What one container should get."""

    container_name: str
    target: dict[str, Quantity]
    at: Time | None = None


class AutoscalerStatus(Status):
    """What was recommended."""

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
    """Sizes the containers of a workload by what they use."""
