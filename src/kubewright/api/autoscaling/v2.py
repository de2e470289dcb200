"""Types of `autoscaling/v2`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Time


class MetricTarget(Struct):
    average_utilization: int | None = None
    average_value: Quantity | None = None
    type: str | None = None
    value: Quantity | None = None


class ContainerResourceMetricSource(Struct):
    container: str | None = None
    name: str | None = None
    target: MetricTarget | None = None


class MetricValueStatus(Struct):
    average_utilization: int | None = None
    average_value: Quantity | None = None
    value: Quantity | None = None


class ContainerResourceMetricStatus(Struct):
    container: str | None = None
    current: MetricValueStatus | None = None
    name: str | None = None


class CrossVersionObjectReference(Struct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None


class MetricIdentifier(Struct):
    name: str | None = None
    selector: LabelSelector | None = None


class ExternalMetricSource(Struct):
    metric: MetricIdentifier | None = None
    target: MetricTarget | None = None


class ExternalMetricStatus(Struct):
    current: MetricValueStatus | None = None
    metric: MetricIdentifier | None = None


class HPAScalingPolicy(Struct):
    period_seconds: int | None = None
    type: str | None = None
    value: int | None = None


class HPAScalingRules(Struct):
    policies: list[HPAScalingPolicy] | None = None
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Struct):
    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


class ObjectMetricSource(Struct):
    described_object: CrossVersionObjectReference | None = None
    metric: MetricIdentifier | None = None
    target: MetricTarget | None = None


class PodsMetricSource(Struct):
    metric: MetricIdentifier | None = None
    target: MetricTarget | None = None


class ResourceMetricSource(Struct):
    name: str | None = None
    target: MetricTarget | None = None


class MetricSpec(Struct):
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    type: str | None = None


class HorizontalPodAutoscalerSpec(Struct):
    behavior: HorizontalPodAutoscalerBehavior | None = None
    max_replicas: int | None = None
    metrics: list[MetricSpec] | None = None
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference | None = None


class HorizontalPodAutoscalerCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class ObjectMetricStatus(Struct):
    current: MetricValueStatus | None = None
    described_object: CrossVersionObjectReference | None = None
    metric: MetricIdentifier | None = None


class PodsMetricStatus(Struct):
    current: MetricValueStatus | None = None
    metric: MetricIdentifier | None = None


class ResourceMetricStatus(Struct):
    current: MetricValueStatus | None = None
    name: str | None = None


class MetricStatus(Struct):
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    type: str | None = None


class HorizontalPodAutoscalerStatus(Struct):
    conditions: list[HorizontalPodAutoscalerCondition] | None = None
    current_metrics: list[MetricStatus] | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: Time | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(MetaObject):
    gvk = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")

    spec: HorizontalPodAutoscalerSpec | None = None
    status: HorizontalPodAutoscalerStatus | None = None


class HorizontalPodAutoscalerList(ObjectList[HorizontalPodAutoscaler]):
    gvk = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscalerList")


__all__ = [
    "ContainerResourceMetricSource",
    "ContainerResourceMetricStatus",
    "CrossVersionObjectReference",
    "ExternalMetricSource",
    "ExternalMetricStatus",
    "HPAScalingPolicy",
    "HPAScalingRules",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerBehavior",
    "HorizontalPodAutoscalerCondition",
    "HorizontalPodAutoscalerList",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "MetricIdentifier",
    "MetricSpec",
    "MetricStatus",
    "MetricTarget",
    "MetricValueStatus",
    "ObjectMetricSource",
    "ObjectMetricStatus",
    "PodsMetricSource",
    "PodsMetricStatus",
    "ResourceMetricSource",
    "ResourceMetricStatus",
]
