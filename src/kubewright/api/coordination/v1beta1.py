"""Types of `coordination.k8s.io/v1beta1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.times import MicroTime


class LeaseCandidateSpec(Struct):
    binary_version: str | None = None
    emulation_version: str | None = None
    lease_name: str | None = None
    ping_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    strategy: str | None = None


class LeaseCandidate(MetaObject):
    gvk = GroupVersionKind("coordination.k8s.io", "v1beta1", "LeaseCandidate")

    spec: LeaseCandidateSpec | None = None


class LeaseCandidateList(ObjectList[LeaseCandidate]):
    gvk = GroupVersionKind("coordination.k8s.io", "v1beta1", "LeaseCandidateList")


__all__ = ["LeaseCandidate", "LeaseCandidateList", "LeaseCandidateSpec"]
