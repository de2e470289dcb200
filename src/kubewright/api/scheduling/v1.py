"""Types of `scheduling.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList


class PriorityClass(MetaObject):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")

    description: str | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None
    value: int | None = None


class PriorityClassList(ObjectList[PriorityClass]):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClassList")


__all__ = ["PriorityClass", "PriorityClassList"]
