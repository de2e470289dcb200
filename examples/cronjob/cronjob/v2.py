"""CronJob v2: the schedule has named parts."""

from __future__ import annotations

from kubewright import CustomResource, Spec, resource
from kubewright.api.objects import Struct

from .v1 import GROUP, CronJobStatus, JobSettings


class CronSchedule(Struct):
    """When to run; a part that is absent matches always."""

    minute: str | None = None
    hour: str | None = None
    day_of_month: str | None = None
    month: str | None = None
    day_of_week: str | None = None


class CronJobSpec(JobSettings, Spec):
    """When to run what."""

    schedule: CronSchedule
    """When to run, part by part."""


@resource(group=GROUP, version="v2")
class CronJob(CustomResource[CronJobSpec, CronJobStatus]):
    """Runs jobs on a schedule."""
