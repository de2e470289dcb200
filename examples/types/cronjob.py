"""The tutorial's CronJob in one version: an embedded job template, a policy with a default, conditions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.api import (
    Atomic,
    Condition,
    CustomResource,
    Ge,
    Int32,
    ListMap,
    MaxItems,
    MinItems,
    MinLen,
    Rbac,
    Spec,
    Status,
    Time,
    Webhook,
    resource,
)
from kubewright.api.batch.v1 import JobTemplateSpec
from kubewright.api.core.v1 import ObjectReference


class ConcurrencyPolicy(StrEnum):
    """How to treat concurrent runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class CronJobSpec(Spec):
    """Desired state of a CronJob."""

    schedule: Annotated[str, MinLen(0)]
    """Schedule in cron format."""

    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    """Deadline in seconds for starting a run; a later run counts as failed."""

    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    """How to treat concurrent runs."""

    suspend: bool | None = None
    """Suspend subsequent runs; active runs continue."""

    job_template: JobTemplateSpec
    """Template of the job of each run."""

    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """Number of successful finished jobs to retain."""

    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """Number of failed finished jobs to retain."""


class CronJobStatus(Status):
    """Observed state of a CronJob."""

    active: Annotated[list[ObjectReference], MinItems(1), MaxItems(10), Atomic] | None = None
    """References to active jobs."""

    last_schedule_time: Time | None = None
    """Time when the last run was started."""

    conditions: Annotated[list[Condition], ListMap("type")] | None = None
    """Available, Progressing and Degraded."""


@resource(group="batch.tutorial.kubebuilder.io", version="v1")
class CronJob(CustomResource[CronJobSpec, CronJobStatus]):
    """Runs jobs on a schedule."""


ALL_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")

PERMISSIONS = (
    Rbac(groups=("batch.tutorial.kubebuilder.io",), resources=("cronjobs",), verbs=ALL_VERBS),
    Rbac(
        groups=("batch.tutorial.kubebuilder.io",),
        resources=("cronjobs/status",),
        verbs=("get", "update", "patch"),
    ),
    Rbac(
        groups=("batch.tutorial.kubebuilder.io",),
        resources=("cronjobs/finalizers",),
        verbs=("update",),
    ),
    Rbac(groups=("batch",), resources=("jobs",), verbs=ALL_VERBS),
    Rbac(groups=("batch",), resources=("jobs/status",), verbs=("get",)),
)
WEBHOOKS = (
    Webhook(CronJob, mutating=True, name="mcronjob-v1.kb.io"),
    Webhook(CronJob, name="vcronjob-v1.kb.io"),
)
