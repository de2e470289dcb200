"""Types of `scheduling.k8s.io/v1alpha2`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct


class BasicSchedulingPolicy(Struct):
    pass


class GangSchedulingPolicy(Struct):
    min_count: int | None = None


class PodGroupResourceClaim(Struct):
    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TopologyConstraint(Struct):
    key: str | None = None


class PodGroupSchedulingConstraints(Struct):
    topology: list[TopologyConstraint] | None = None


class PodGroupSchedulingPolicy(Struct):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class WorkloadPodGroupTemplateReference(Struct):
    pod_group_template_name: str | None = None
    workload_name: str | None = None


class PodGroupTemplateReference(Struct):
    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(Struct):
    disruption_mode: str | None = None
    pod_group_template_ref: PodGroupTemplateReference | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    scheduling_policy: PodGroupSchedulingPolicy | None = None


class PodGroupResourceClaimStatus(Struct):
    name: str | None = None
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodGroupResourceClaimStatus] | None = None


class PodGroup(MetaObject):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1alpha2", "PodGroup")

    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None


class PodGroupList(ObjectList[PodGroup]):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1alpha2", "PodGroupList")


class PodGroupTemplate(Struct):
    disruption_mode: str | None = None
    name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    scheduling_policy: PodGroupSchedulingPolicy | None = None


class TypedLocalObjectReference(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class WorkloadSpec(Struct):
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None


class Workload(MetaObject):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1alpha2", "Workload")

    spec: WorkloadSpec | None = None


class WorkloadList(ObjectList[Workload]):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1alpha2", "WorkloadList")


__all__ = [
    "BasicSchedulingPolicy",
    "GangSchedulingPolicy",
    "PodGroup",
    "PodGroupList",
    "PodGroupResourceClaim",
    "PodGroupResourceClaimStatus",
    "PodGroupSchedulingConstraints",
    "PodGroupSchedulingPolicy",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodGroupTemplate",
    "PodGroupTemplateReference",
    "TopologyConstraint",
    "TypedLocalObjectReference",
    "Workload",
    "WorkloadList",
    "WorkloadPodGroupTemplateReference",
    "WorkloadSpec",
]
