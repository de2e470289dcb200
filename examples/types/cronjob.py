"""The tutorial's CronJob in one version: an embedded job template, a policy with a default, conditions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.api.batch.v1 import JobTemplateSpec
from kubewright.api.core.v1 import ObjectReference
from kubewright.api.declarations import Rbac, Webhook, resource
from kubewright.api.markers import Atomic, Ge, Int32, ListMap, MaxItems, MinItems, MinLen
from kubewright.api.meta import Condition, CustomResource
from kubewright.api.objects import Spec, Status
from kubewright.api.times import Time


class ConcurrencyPolicy(StrEnum):
    """What to do when a run is due while another still runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class CronJobSpec(Spec):
    """When to run what."""

    schedule: Annotated[str, MinLen(0)]
    """When to run, in cron's notation."""

    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    """How late a run may start; a run that is later counts as failed."""

    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    """What to do when a run is due while another still runs."""

    suspend: bool | None = None
    """Start no further runs; those that run go on."""

    job_template: JobTemplateSpec
    """The job to start at each run."""

    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """How many jobs that succeeded to keep."""

    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """How many jobs that failed to keep."""


class CronJobStatus(Status):
    """What runs and what ran."""

    active: Annotated[list[ObjectReference], MinItems(1), MaxItems(10), Atomic] | None = None
    """The jobs that run now."""

    last_schedule_time: Time | None = None
    """When the last run was started."""

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
