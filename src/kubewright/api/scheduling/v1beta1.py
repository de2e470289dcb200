"""Types of `scheduling.k8s.io/v1beta1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, ObjectList
from kubewright.api.objects import Struct


class AllCompositeDisruptionMode(Struct):
    pass


class AllDisruptionMode(Struct):
    pass


class BasicSchedulingPolicy(Struct):
    pass


class CompositeBasicSchedulingPolicy(Struct):
    pass


class SingleCompositeDisruptionMode(Struct):
    pass


class CompositeDisruptionMode(Struct):
    all: AllCompositeDisruptionMode | None = None
    single: SingleCompositeDisruptionMode | None = None


class CompositeGangSchedulingPolicy(Struct):
    min_group_count: int | None = None


class TopologyConstraint(Struct):
    key: str | None = None


class CompositePodGroupSchedulingConstraints(Struct):
    topology: list[TopologyConstraint] | None = None


class CompositePodGroupSchedulingPolicy(Struct):
    basic: CompositeBasicSchedulingPolicy | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class SingleDisruptionMode(Struct):
    pass


class DisruptionMode(Struct):
    all: AllDisruptionMode | None = None
    single: SingleDisruptionMode | None = None


class PodGroupResourceClaim(Struct):
    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSchedulingConstraints(Struct):
    topology: list[TopologyConstraint] | None = None


class GangSchedulingPolicy(Struct):
    min_count: int | None = None


class PodGroupSchedulingPolicy(Struct):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class PodGroupTemplate(Struct):
    disruption_mode: DisruptionMode | None = None
    name: str | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    scheduling_policy: PodGroupSchedulingPolicy | None = None


class CompositePodGroupTemplate(Struct):
    composite_pod_group_templates: "list[CompositePodGroupTemplate] | None" = None
    disruption_mode: CompositeDisruptionMode | None = None
    name: str | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    scheduling_constraints: CompositePodGroupSchedulingConstraints | None = None
    scheduling_policy: CompositePodGroupSchedulingPolicy | None = None


class WorkloadReference(Struct):
    template_name: str | None = None
    workload_name: str | None = None


class PodGroupSpec(Struct):
    disruption_mode: DisruptionMode | None = None
    parent_composite_pod_group_name: str | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    scheduling_policy: PodGroupSchedulingPolicy | None = None
    workload_ref: WorkloadReference | None = None


class PodGroupResourceClaimStatus(Struct):
    name: str | None = None
    resource_claim_name: str | None = None


class PodGroupStatus(Struct):
    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodGroupResourceClaimStatus] | None = None


class PodGroup(MetaObject):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1beta1", "PodGroup")

    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None


class PodGroupList(ObjectList[PodGroup]):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1beta1", "PodGroupList")


class TypedLocalObjectReference(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class WorkloadSpec(Struct):
    composite_pod_group_templates: list[CompositePodGroupTemplate] | None = None
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None


class Workload(MetaObject):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1beta1", "Workload")

    spec: WorkloadSpec | None = None


class WorkloadList(ObjectList[Workload]):
    gvk = GroupVersionKind("scheduling.k8s.io", "v1beta1", "WorkloadList")


__all__ = [
    "AllCompositeDisruptionMode",
    "AllDisruptionMode",
    "BasicSchedulingPolicy",
    "CompositeBasicSchedulingPolicy",
    "CompositeDisruptionMode",
    "CompositeGangSchedulingPolicy",
    "CompositePodGroupSchedulingConstraints",
    "CompositePodGroupSchedulingPolicy",
    "CompositePodGroupTemplate",
    "DisruptionMode",
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
    "SingleCompositeDisruptionMode",
    "SingleDisruptionMode",
    "TopologyConstraint",
    "TypedLocalObjectReference",
    "Workload",
    "WorkloadList",
    "WorkloadReference",
    "WorkloadSpec",
]
