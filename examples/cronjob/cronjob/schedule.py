"""Cron schedules of this API: five fields, or a descriptor such as `@hourly`, in UTC.

Intervals (`@every 1h`) and time zones are not accepted: v2 has only the five fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from kubewright.api import CronSchedule, ScheduleError, parse_schedule
from kubewright.api.values.cron_schedules import DESCRIPTORS


def parse(text: str) -> CronSchedule:
    """Parse a schedule; raise `ScheduleError` if it is invalid or has no time."""
    schedule = parse_schedule(DESCRIPTORS.get(text.strip(), text))
    if not isinstance(schedule, CronSchedule) or schedule.zone is not UTC:
        raise ScheduleError("intervals and time zones are not supported")
    if schedule.next(datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise ScheduleError(f"{text!r} matches no date")
    return schedule


def runs(schedule: CronSchedule, since: datetime) -> Iterator[datetime]:
    """Yield the scheduled times after a time, in order."""
    run = schedule.next(since)
    while run is not None:
        yield run
        run = schedule.next(run)
