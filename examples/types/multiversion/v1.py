"""The stored version and hub: the schedule is one text."""

from __future__ import annotations

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
    Spec,
    Status,
    Struct,
    Time,
    Webhook,
    WebhookConversion,
    resource,
)
from kubewright.api.batch.v1 import JobTemplateSpec
from kubewright.api.core.v1 import ObjectReference

from .policy import ConcurrencyPolicy


class JobSettings(Struct):
    """What both versions of the spec say."""

    starting_deadline_seconds: Annotated[int, Ge(0)] | None = None
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    suspend: bool | None = None
    job_template: JobTemplateSpec
    successful_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None
    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None


class CronJobSpec(JobSettings, Spec):
    """Desired state of a CronJob."""

    schedule: Annotated[str, MinLen(0)]
    """Schedule in cron format."""


class CronJobStatus(Status):
    """Observed state of a CronJob."""

    active: Annotated[list[ObjectReference], MinItems(1), MaxItems(10), Atomic] | None = None
    last_schedule_time: Time | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(
    group="batch.tutorial.kubebuilder.io",
    version="v1",
    storage=True,
    hub=True,
    conversion=WebhookConversion(),
)
class CronJob(CustomResource[CronJobSpec, CronJobStatus]):
    """Runs jobs on a schedule."""


WEBHOOKS = [Webhook(CronJob, mutating=True), Webhook(CronJob)]
