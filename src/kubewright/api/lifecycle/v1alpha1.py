"""Types of `lifecycle.k8s.io/v1alpha1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.times import Time


class EvictionPodReference(Struct):
    name: str | None = None
    uid: str | None = None


class EvictionTarget(Struct):
    pod: EvictionPodReference | None = None


class EvictionSpec(Struct):
    target: EvictionTarget | None = None


class Requester(Struct):
    intent: str | None = None
    name: str | None = None


class ResponderStatus(Struct):
    completion_time: Time | None = None
    expected_completion_time: Time | None = None
    heartbeat_time: Time | None = None
    message: str | None = None
    name: str | None = None
    start_time: Time | None = None


class TargetResponder(Struct):
    name: str | None = None
    priority: int | None = None
    state: str | None = None


class EvictionStatus(Struct):
    conditions: list[Condition] | None = None
    observed_generation: int | None = None
    requesters: list[Requester] | None = None
    responders: list[ResponderStatus] | None = None
    target_responders: list[TargetResponder] | None = None


class Eviction(MetaObject):
    gvk = GroupVersionKind("lifecycle.k8s.io", "v1alpha1", "Eviction")

    spec: EvictionSpec | None = None
    status: EvictionStatus | None = None


class EvictionList(ObjectList[Eviction]):
    gvk = GroupVersionKind("lifecycle.k8s.io", "v1alpha1", "EvictionList")


class EvictionRequestPodReference(Struct):
    name: str | None = None
    uid: str | None = None


class EvictionRequestTarget(Struct):
    pod: EvictionRequestPodReference | None = None


class EvictionRequestSpec(Struct):
    intent: str | None = None
    requester: str | None = None
    target: EvictionRequestTarget | None = None


class EvictionRequestStatus(Struct):
    conditions: list[Condition] | None = None
    observed_generation: int | None = None


class EvictionRequest(MetaObject):
    gvk = GroupVersionKind("lifecycle.k8s.io", "v1alpha1", "EvictionRequest")

    spec: EvictionRequestSpec | None = None
    status: EvictionRequestStatus | None = None


class EvictionRequestList(ObjectList[EvictionRequest]):
    gvk = GroupVersionKind("lifecycle.k8s.io", "v1alpha1", "EvictionRequestList")


__all__ = [
    "Eviction",
    "EvictionList",
    "EvictionPodReference",
    "EvictionRequest",
    "EvictionRequestList",
    "EvictionRequestPodReference",
    "EvictionRequestSpec",
    "EvictionRequestStatus",
    "EvictionRequestTarget",
    "EvictionSpec",
    "EvictionStatus",
    "EvictionTarget",
    "Requester",
    "ResponderStatus",
    "TargetResponder",
]
