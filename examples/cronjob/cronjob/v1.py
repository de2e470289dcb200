"""CronJob v1: the storage version and the hub of conversion. The schedule is one string."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright import Column, Condition, CustomResource, Spec, Status, resource
from kubewright.api import Atomic, Ge, Int32, ListMap, MaxItems, MinItems, Struct, Time, WebhookConversion
from kubewright.api.batch.v1 import JobSpec
from kubewright.api.core.v1 import ObjectReference

GROUP = "batch.tutorial.kubebuilder.io"
MOST_ACTIVE = 10
"""Maximum number of active jobs in the status."""


class ConcurrencyPolicy(StrEnum):
    """How to treat concurrent runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class TemplateMetadata(Struct):
    """Metadata of the jobs. Declared, because servers prune fields that a schema does not declare."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class JobTemplate(Struct):
    """Template of a job."""

    metadata: TemplateMetadata | None = None
    spec: JobSpec


class JobSettings(Struct):
    """The fields of the spec that both versions share."""

    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    """Deadline in seconds for starting a run; a later run is skipped."""

    concurrency_policy: ConcurrencyPolicy | None = None
    """How to treat concurrent runs; the webhook sets `Allow` by default."""

    suspend: bool | None = None
    """Suspend subsequent runs; active runs continue."""

    job_template: JobTemplate
    """Template of the job of each run."""

    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """Number of successful finished jobs to retain."""

    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """Number of failed finished jobs to retain."""


class CronJobSpec(JobSettings, Spec):
    """Desired state of a CronJob."""

    schedule: str
    """Schedule in cron format."""


class CronJobStatus(Status):
    """Observed state of a CronJob."""

    active: Annotated[list[ObjectReference], MinItems(1), MaxItems(MOST_ACTIVE), Atomic] | None = None
    """References to active jobs."""

    last_schedule_time: Time | None = None
    """Scheduled time of the last run."""

    conditions: Annotated[list[Condition], ListMap("type")] | None = None
    """Available, Progressing and Degraded."""


@resource(
    group=GROUP,
    version="v1",
    storage=True,
    hub=True,
    conversion=WebhookConversion(),
    columns=(
        Column("Schedule", ".spec.schedule"),
        Column("Suspend", ".spec.suspend", "boolean"),
        Column("Last schedule", ".status.lastScheduleTime", "date"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class CronJob(CustomResource[CronJobSpec, CronJobStatus]):
    """Runs jobs on a schedule."""
