"""Scheduled times of a CronJob that have passed without a Job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from kubewright.api.batch.v1 import CronJob
from kubewright.api.values.cron_schedules import Schedule, ScheduleError

REQUEUE_DELAY = 0.1
"""Seconds after a scheduled time at which it is processed, because clocks are not exact."""
MANY = 100
"""Number of missed times that is reported."""


class MissedTimes(NamedTuple):
    """The times since the last one that was processed."""

    since: datetime
    """The last time that was processed, or the creation of the CronJob."""
    most_recent: datetime | None
    """The latest time that has passed."""
    missed: int
    """About how many times were missed, apart from the one that is due."""


def find_missed_times(
    cron_job: CronJob, schedule: Schedule, now: datetime, *, within_deadline: bool
) -> MissedTimes:
    """Return the missed times; with `within_deadline` only those before whose deadline a Job can start."""
    status, spec = cron_job.status, cron_job.spec
    assert spec is not None
    since = (status.last_schedule_time if status is not None else None) or (
        cron_job.metadata.creation_timestamp or now
    )
    if within_deadline and spec.starting_deadline_seconds is not None:
        since = max(since, now - timedelta(seconds=spec.starting_deadline_seconds))
    first = schedule.next(since)
    second = schedule.next(first) if first is not None else None
    if first is None or second is None:
        # Kubernetes finds this because both are the same zero time.
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < first:
        return MissedTimes(since, None, 0)
    if now < second:
        return MissedTimes(since, first, 0)
    interval = round((second - first).total_seconds())
    if interval < 1:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    # An estimate: schedules such as `30 6-16/4 * * 1-5` are irregular.
    count = int((now - first).total_seconds()) // interval + 1
    most_recent = None
    moment = schedule.next(first + timedelta(seconds=(count - 2) * interval))
    while moment is not None and moment <= now:
        most_recent = moment
        moment = schedule.next(moment)
    return MissedTimes(since, most_recent, count)


def seconds_until_next(cron_job: CronJob, schedule: Schedule, now: datetime) -> float:
    """Return the seconds until the next scheduled time is processed; 0 if the schedule has none."""
    try:
        missed = find_missed_times(cron_job, schedule, now, within_deadline=False)
        after = missed.most_recent or (now if missed.missed else missed.since)
    except ScheduleError:
        after = now
    following = schedule.next(after)
    if following is None:
        return 0.0
    return max((following - now).total_seconds() + REQUEUE_DELAY, 0.001)
