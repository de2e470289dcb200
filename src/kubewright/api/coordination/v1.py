"""Types of `coordination.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.times import MicroTime


class LeaseSpec(Struct):
    acquire_time: MicroTime | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: MicroTime | None = None
    strategy: str | None = None


class Lease(MetaObject):
    gvk = GroupVersionKind("coordination.k8s.io", "v1", "Lease")

    spec: LeaseSpec | None = None


class LeaseList(ObjectList[Lease]):
    gvk = GroupVersionKind("coordination.k8s.io", "v1", "LeaseList")


__all__ = ["Lease", "LeaseList", "LeaseSpec"]
