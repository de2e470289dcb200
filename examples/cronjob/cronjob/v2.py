"""CronJob v2: the schedule has named fields."""

from __future__ import annotations

from kubewright import CustomResource, Spec, resource
from kubewright.api import Struct

from .v1 import GROUP, CronJobStatus, JobSettings


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


@resource(group=GROUP, version="v2")
class CronJob(CustomResource[CronJobSpec, CronJobStatus]):
    """Runs jobs on a schedule."""
