"""Types of `autoscaling/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct, field
from kubewright.api.values.times import Time


class CrossVersionObjectReference(Struct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None


class HorizontalPodAutoscalerSpec(Struct):
    max_replicas: int | None = None
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference | None = None
    target_cpu_utilization_percentage: int | None = field(default=None, name="targetCPUUtilizationPercentage")


class HorizontalPodAutoscalerStatus(Struct):
    current_cpu_utilization_percentage: int | None = field(
        default=None, name="currentCPUUtilizationPercentage"
    )
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: Time | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(MetaObject):
    gvk = GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler")

    spec: HorizontalPodAutoscalerSpec | None = None
    status: HorizontalPodAutoscalerStatus | None = None


class HorizontalPodAutoscalerList(ObjectList[HorizontalPodAutoscaler]):
    gvk = GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscalerList")


class ScaleSpec(Struct):
    replicas: int | None = None


class ScaleStatus(Struct):
    replicas: int | None = None
    selector: str | None = None


class Scale(MetaObject):
    gvk = GroupVersionKind("autoscaling", "v1", "Scale")

    spec: ScaleSpec | None = None
    status: ScaleStatus | None = None


__all__ = [
    "CrossVersionObjectReference",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerList",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "Scale",
    "ScaleSpec",
    "ScaleStatus",
]
