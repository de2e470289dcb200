"""Types of `batch/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import LabelSelector, MetaObject, ObjectList, ObjectMeta, ObjectReference
from kubewright.api.objects import Struct
from kubewright.api.scheduling.v1alpha3 import (
    WorkloadPodGroupDisruptionMode,
    WorkloadPodGroupResourceClaim,
    WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy,
)
from kubewright.api.values.times import Time


class JobSchedulingConfiguration(Struct):
    disruption_mode: WorkloadPodGroupDisruptionMode | None = None
    resource_claims: list[WorkloadPodGroupResourceClaim] | None = None
    scheduling_constraints: WorkloadPodGroupSchedulingConstraints | None = None
    scheduling_policy: WorkloadPodGroupSchedulingPolicy | None = None


class PodFailurePolicyOnExitCodesRequirement(Struct):
    container_name: str | None = None
    operator: str | None = None
    values: list[int] | None = None


class PodFailurePolicyOnPodConditionsPattern(Struct):
    status: str | None = None
    type: str | None = None


class PodFailurePolicyRule(Struct):
    action: str | None = None
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] | None = None


class PodFailurePolicy(Struct):
    rules: list[PodFailurePolicyRule] | None = None


class SuccessPolicyRule(Struct):
    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


class SuccessPolicy(Struct):
    rules: list[SuccessPolicyRule] | None = None


class JobSpec(Struct):
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: str | None = None
    completions: int | None = None
    managed_by: str | None = None
    manual_selector: bool | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None
    scheduling: JobSchedulingConfiguration | None = None
    selector: LabelSelector | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool | None = None
    template: PodTemplateSpec | None = None
    ttl_seconds_after_finished: int | None = None


class JobTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Struct):
    concurrency_policy: str | None = None
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec | None = None
    schedule: str | None = None
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool | None = None
    time_zone: str | None = None


class CronJobStatus(Struct):
    active: list[ObjectReference] | None = None
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(MetaObject):
    gvk = GroupVersionKind("batch", "v1", "CronJob")

    spec: CronJobSpec | None = None
    status: CronJobStatus | None = None


class CronJobList(ObjectList[CronJob]):
    gvk = GroupVersionKind("batch", "v1", "CronJobList")


class JobCondition(Struct):
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class UncountedTerminatedPods(Struct):
    failed: list[str] | None = None
    succeeded: list[str] | None = None


class JobStatus(Struct):
    active: int | None = None
    completed_indexes: str | None = None
    completion_time: Time | None = None
    conditions: list[JobCondition] | None = None
    failed: int | None = None
    failed_indexes: str | None = None
    ready: int | None = None
    start_time: Time | None = None
    succeeded: int | None = None
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(MetaObject):
    gvk = GroupVersionKind("batch", "v1", "Job")

    spec: JobSpec | None = None
    status: JobStatus | None = None


class JobList(ObjectList[Job]):
    gvk = GroupVersionKind("batch", "v1", "JobList")


__all__ = [
    "CronJob",
    "CronJobList",
    "CronJobSpec",
    "CronJobStatus",
    "Job",
    "JobCondition",
    "JobList",
    "JobSchedulingConfiguration",
    "JobSpec",
    "JobStatus",
    "JobTemplateSpec",
    "PodFailurePolicy",
    "PodFailurePolicyOnExitCodesRequirement",
    "PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyRule",
    "SuccessPolicy",
    "SuccessPolicyRule",
    "UncountedTerminatedPods",
]
