"""CronJob v1: the version that is stored, and the hub of conversion. The schedule is one text."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright import Column, Condition, CustomResource, Spec, Status, resource
from kubewright.api.batch.v1 import JobSpec
from kubewright.api.core.v1 import ObjectReference
from kubewright.api.declarations import WebhookConversion
from kubewright.api.markers import Atomic, Ge, Int32, ListMap, MaxItems, MinItems
from kubewright.api.objects import Struct
from kubewright.api.times import Time

GROUP = "batch.tutorial.kubebuilder.io"
MOST_ACTIVE = 10
"""How many running jobs a status lists."""


class ConcurrencyPolicy(StrEnum):
    """What to do when a run is due while another still runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class TemplateMetadata(Struct):
    """What the jobs have beside their spec. Spelled out, because servers drop what a schema does not name."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class JobTemplate(Struct):
    """A job to start."""

    metadata: TemplateMetadata | None = None
    spec: JobSpec


class JobSettings(Struct):
    """What both versions of the spec say in the same words."""

    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    """How late a run may start; a run that is later is left out."""

    concurrency_policy: ConcurrencyPolicy | None = None
    """What to do when a run is due while another still runs; the webhook fills in `Allow`."""

    suspend: bool | None = None
    """Start no further runs; those that run go on."""

    job_template: JobTemplate
    """The job to start at each run."""

    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """How many jobs that succeeded to keep."""

    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    """How many jobs that failed to keep."""


class CronJobSpec(JobSettings, Spec):
    """When to run what."""

    schedule: str
    """When to run, in cron's notation."""


class CronJobStatus(Status):
    """What runs and what ran."""

    active: Annotated[list[ObjectReference], MinItems(1), MaxItems(MOST_ACTIVE), Atomic] | None = None
    """The jobs that run now."""

    last_schedule_time: Time | None = None
    """The time that the last run was due at."""

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
