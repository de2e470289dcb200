"""Types of `policy/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, DeleteOptions, LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.times import Time


class Eviction(MetaObject):
    gvk = GroupVersionKind("policy", "v1", "Eviction")

    delete_options: DeleteOptions | None = None


class PodDisruptionBudgetSpec(Struct):
    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct):
    conditions: list[Condition] | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    disrupted_pods: dict[str, Time] | None = None
    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(MetaObject):
    gvk = GroupVersionKind("policy", "v1", "PodDisruptionBudget")

    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


class PodDisruptionBudgetList(ObjectList[PodDisruptionBudget]):
    gvk = GroupVersionKind("policy", "v1", "PodDisruptionBudgetList")


__all__ = [
    "Eviction",
    "PodDisruptionBudget",
    "PodDisruptionBudgetList",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
]
