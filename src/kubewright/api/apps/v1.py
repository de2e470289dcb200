"""Types of `apps/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from typing import Any

from kubewright.api.core.v1 import PersistentVolumeClaim, PodTemplateSpec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject, ObjectList
from kubewright.api.objects import Struct
from kubewright.api.values.times import Time


class ControllerRevision(MetaObject):
    gvk = GroupVersionKind("apps", "v1", "ControllerRevision")

    data: dict[str, Any] | None = None
    revision: int | None = None


class ControllerRevisionList(ObjectList[ControllerRevision]):
    gvk = GroupVersionKind("apps", "v1", "ControllerRevisionList")


class RollingUpdateDaemonSet(Struct):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DaemonSetUpdateStrategy(Struct):
    rolling_update: RollingUpdateDaemonSet | None = None
    type: str | None = None


class DaemonSetSpec(Struct):
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None
    update_strategy: DaemonSetUpdateStrategy | None = None


class DaemonSetCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class DaemonSetStatus(Struct):
    collision_count: int | None = None
    conditions: list[DaemonSetCondition] | None = None
    current_number_scheduled: int | None = None
    desired_number_scheduled: int | None = None
    number_available: int | None = None
    number_misscheduled: int | None = None
    number_ready: int | None = None
    number_unavailable: int | None = None
    observed_generation: int | None = None
    updated_number_scheduled: int | None = None


class DaemonSet(MetaObject):
    gvk = GroupVersionKind("apps", "v1", "DaemonSet")

    spec: DaemonSetSpec | None = None
    status: DaemonSetStatus | None = None


class DaemonSetList(ObjectList[DaemonSet]):
    gvk = GroupVersionKind("apps", "v1", "DaemonSetList")


class RollingUpdateDeployment(Struct):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(Struct):
    rolling_update: RollingUpdateDeployment | None = None
    type: str | None = None


class DeploymentSpec(Struct):
    min_ready_seconds: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    strategy: DeploymentStrategy | None = None
    template: PodTemplateSpec | None = None


class DeploymentCondition(Struct):
    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class DeploymentStatus(Struct):
    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: list[DeploymentCondition] | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    terminating_replicas: int | None = None
    unavailable_replicas: int | None = None
    updated_replicas: int | None = None


class Deployment(MetaObject):
    gvk = GroupVersionKind("apps", "v1", "Deployment")

    spec: DeploymentSpec | None = None
    status: DeploymentStatus | None = None


class DeploymentList(ObjectList[Deployment]):
    gvk = GroupVersionKind("apps", "v1", "DeploymentList")


class ReplicaSetSpec(Struct):
    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class ReplicaSetCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class ReplicaSetStatus(Struct):
    available_replicas: int | None = None
    conditions: list[ReplicaSetCondition] | None = None
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    terminating_replicas: int | None = None


class ReplicaSet(MetaObject):
    gvk = GroupVersionKind("apps", "v1", "ReplicaSet")

    spec: ReplicaSetSpec | None = None
    status: ReplicaSetStatus | None = None


class ReplicaSetList(ObjectList[ReplicaSet]):
    gvk = GroupVersionKind("apps", "v1", "ReplicaSetList")


class RollingUpdateStatefulSetStrategy(Struct):
    max_unavailable: int | str | None = None
    partition: int | None = None


class StatefulSetOrdinals(Struct):
    start: int | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Struct):
    when_deleted: str | None = None
    when_scaled: str | None = None


class StatefulSetUpdateStrategy(Struct):
    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: str | None = None


class StatefulSetSpec(Struct):
    min_ready_seconds: int | None = None
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    pod_management_policy: str | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    service_name: str | None = None
    template: PodTemplateSpec | None = None
    update_strategy: StatefulSetUpdateStrategy | None = None
    volume_claim_templates: list[PersistentVolumeClaim] | None = None


class StatefulSetCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class StatefulSetStatus(Struct):
    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: list[StatefulSetCondition] | None = None
    current_replicas: int | None = None
    current_revision: str | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    update_revision: str | None = None
    updated_replicas: int | None = None


class StatefulSet(MetaObject):
    gvk = GroupVersionKind("apps", "v1", "StatefulSet")

    spec: StatefulSetSpec | None = None
    status: StatefulSetStatus | None = None


class StatefulSetList(ObjectList[StatefulSet]):
    gvk = GroupVersionKind("apps", "v1", "StatefulSetList")


__all__ = [
    "ControllerRevision",
    "ControllerRevisionList",
    "DaemonSet",
    "DaemonSetCondition",
    "DaemonSetList",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "DaemonSetUpdateStrategy",
    "Deployment",
    "DeploymentCondition",
    "DeploymentList",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetCondition",
    "ReplicaSetList",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdateDaemonSet",
    "RollingUpdateDeployment",
    "RollingUpdateStatefulSetStrategy",
    "StatefulSet",
    "StatefulSetCondition",
    "StatefulSetList",
    "StatefulSetOrdinals",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StatefulSetUpdateStrategy",
]
