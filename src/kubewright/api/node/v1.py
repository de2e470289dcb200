"""Types of `node.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.core.v1 import Toleration
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.quantity import Quantity


class Overhead(Struct):
    pod_fixed: dict[str, Quantity] | None = None


class Scheduling(Struct):
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(MetaObject):
    gvk = GroupVersionKind("node.k8s.io", "v1", "RuntimeClass")

    handler: str | None = None
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


class RuntimeClassList(ObjectList[RuntimeClass]):
    gvk = GroupVersionKind("node.k8s.io", "v1", "RuntimeClassList")


__all__ = ["Overhead", "RuntimeClass", "RuntimeClassList", "Scheduling"]
