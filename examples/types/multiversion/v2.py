"""The new version: the schedule has named parts."""

from __future__ import annotations

from kubewright.api import CustomResource, Spec, Struct, Webhook, resource

from .v1 import CronJobStatus, JobSettings


class CronSchedule(Struct):
    """Schedule; an absent field matches every value."""

    minute: str | None = None
    hour: str | None = None
    day_of_month: str | None = None
    month: str | None = None
    day_of_week: str | None = None


class CronJobSpec(JobSettings, Spec):
    """Desired state of a CronJob."""

    schedule: CronSchedule
    """Schedule by field."""


@resource(group="batch.tutorial.kubebuilder.io", version="v2")
class CronJob(CustomResource[CronJobSpec, CronJobStatus]):
    """Runs jobs on a schedule."""


WEBHOOKS = [Webhook(CronJob, mutating=True), Webhook(CronJob)]
