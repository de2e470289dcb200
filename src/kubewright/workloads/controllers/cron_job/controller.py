"""CronJobs: create a Job at each scheduled time, and delete old ones.

The name of a Job contains the scheduled minute, so that no time is used twice, even after a restart.

Scheduled times of a CronJob that have passed without a Job.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kubewright.api.batch.v1 import CronJob, CronJobStatus, Job
from kubewright.api.conditions import get_condition, is_condition_true
from kubewright.api.errors import AlreadyExists, APIError, NotFound
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.api.owners import is_controlled_by, owner_reference
from kubewright.api.values.cron_schedules import Schedule, ScheduleError, load_zone, parse_schedule
from kubewright.api.values.go_format import quote
from kubewright.client.patches import has_changes
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pod_control import is_namespace_terminating

SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def add_cronjob_controller(manager: ComponentManager) -> None:
    """Add the controller of CronJobs."""
    (
        ControllerBuilder[Request](manager, "cronjob-controller")
        .for_(CronJob)
        .owns(Job)
        .with_options(workers=5)
        .complete(CronJobReconciler(manager).reconcile)
    )


class CronJobReconciler:
    """Reconciles CronJobs."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client
        self._event = manager.recorder.event

    async def reconcile(self, cron_job: CronJob) -> Result | None:
        """Create the Job that is due, and update the status."""
        if cron_job.status is None:
            cron_job.status = CronJobStatus()
        owner = cron_job.metadata.uid or ""
        found = await self._manager.cache.list(Job, namespace=cron_job.namespace, owner=owner)
        jobs = [job for job in found if is_controlled_by(job, cron_job)]
        error: Exception | None = None
        delay = 0.0
        try:
            delay = await self._sync(cron_job, jobs)
        except Exception as failure:
            error = failure
        await self._delete_old_jobs(cron_job, jobs)
        if has_changes(cron_job, part="status"):
            await self._client.update_status(cron_job)
        if error is not None:
            raise error
        return Result(requeue_after=delay) if delay > 0 else None

    async def _sync(self, cron_job: CronJob, jobs: list[Job]) -> float:
        """Create the Job that is due; return the seconds until the next scheduled time, 0 for none."""
        spec = cron_job.spec
        assert spec is not None
        await self._update_active(cron_job, jobs)
        if cron_job.metadata.deletion_timestamp is not None:
            return 0.0
        schedule = self._schedule(cron_job)
        if schedule is None:
            return 0.0
        now = self._manager.now()
        try:
            missed = find_missed_times(cron_job, schedule, now, within_deadline=True)
        except ScheduleError as error:
            self._event(
                cron_job, "Warning", "InvalidSchedule", f"invalid schedule: {spec.schedule} : {error}"
            )
            return 0.0
        due = missed.most_recent
        if due is not None and missed.missed > MANY:
            text = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds "
                "or check clock skew"
            )
            self._event(cron_job, "Warning", "TooManyMissedTimes", text)
        if due is not None and self._is_allowed(cron_job, due, now):
            await self._start(cron_job, due)
        return seconds_until_next(cron_job, schedule, now)

    def _schedule(self, cron_job: CronJob) -> Schedule | None:
        """Return the schedule; `None` if the CronJob is suspended or the schedule is invalid."""
        spec = cron_job.spec
        assert spec is not None
        text = spec.schedule or ""
        if spec.time_zone is not None:
            try:
                load_zone(spec.time_zone)
            except ScheduleError as error:
                message = f"invalid timeZone: {quote(spec.time_zone)}: {error}"
                self._event(cron_job, "Warning", "UnknownTimeZone", message)
                return None
        if spec.suspend:
            return None
        if "TZ" in text:
            message = (
                f"CRON_TZ or TZ used in schedule {quote(text)} is not officially supported, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
            self._event(cron_job, "Warning", "UnsupportedSchedule", message)
        elif spec.time_zone is not None:
            text = f"TZ={spec.time_zone} {text}"
        try:
            return parse_schedule(text)
        except ScheduleError as error:
            message = f"unparseable schedule: {quote(spec.schedule or '')} : {error}"
            self._event(cron_job, "Warning", "UnparseableSchedule", message)
            return None

    async def _update_active(self, cron_job: CronJob, jobs: list[Job]) -> None:
        """Remove finished and missing Jobs from the active list."""
        status = cron_job.status
        assert status is not None
        active = {each.uid for each in status.active or ()}
        for job in jobs:
            condition = _finished_condition(job)
            if not condition:
                if job.metadata.uid not in active:
                    text = f"Saw a job that the controller did not create or forgot: {job.name}"
                    self._event(cron_job, "Warning", "UnexpectedJob", text)
                continue
            if job.metadata.uid in active:
                _remove_active(cron_job, job.metadata.uid)
                text = f"Saw completed job: {job.name}, condition: {condition}"
                self._event(cron_job, "Normal", "SawCompletedJob", text)
            completed = job.status.completion_time if job.status is not None else None
            if (
                condition == "Complete"
                and completed is not None
                and (status.last_successful_time is None or completed > status.last_successful_time)
            ):
                status.last_successful_time = completed
        existing = {job.metadata.uid for job in jobs}
        for reference in list(status.active or ()):
            if reference.uid in existing:
                continue
            name, namespace = reference.name or "", reference.namespace
            if await self._client.uncached.get_or_none(Job, name, namespace=namespace) is None:
                self._event(cron_job, "Normal", "MissingJob", f"Active job went missing: {name}")
                _remove_active(cron_job, reference.uid)

    def _is_allowed(self, cron_job: CronJob, due: datetime, now: datetime) -> bool:
        """Whether a Job may start for a scheduled time: deadline, earlier runs and concurrency policy."""
        spec, status = cron_job.spec, cron_job.status
        assert spec is not None
        assert status is not None
        deadline = spec.starting_deadline_seconds
        if deadline is not None and due + timedelta(seconds=deadline) < now:
            moment = due.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._event(
                cron_job, "Warning", "MissSchedule", f"Missed scheduled time to start a job: {moment}"
            )
            return False
        active = status.active or []
        name = _job_name(cron_job, due)
        if status.last_schedule_time == due or any(each.name == name for each in active):
            return False
        if spec.concurrency_policy == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._event(cron_job, "Normal", "JobAlreadyActive", text)
            return False
        return True

    async def _start(self, cron_job: CronJob, due: datetime) -> None:
        """Create the Job of a scheduled time and add it to the status."""
        spec, status = cron_job.spec, cron_job.status
        assert spec is not None
        assert status is not None
        if spec.concurrency_policy == "Replace":
            for reference in list(status.active or ()):
                await self._delete(cron_job, reference.name or "", reference.uid)
        job = _new_job(cron_job, due)
        try:
            job = await self._client.create(job)
        except AlreadyExists:
            job = await self._client.uncached.get(Job, job.name, namespace=cron_job.namespace)
            if not is_controlled_by(job, cron_job):
                return
        except APIError as error:
            if not is_namespace_terminating(error):
                self._event(cron_job, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            self._event(cron_job, "Normal", "SuccessfulCreate", f"Created job {job.name}")
        reference = ObjectReference(
            api_version="batch/v1",
            kind="Job",
            name=job.name,
            namespace=job.namespace,
            uid=job.metadata.uid,
            resource_version=job.metadata.resource_version,
        )
        status.active = [*(status.active or ()), reference]
        status.last_schedule_time = due

    async def _delete(self, cron_job: CronJob, name: str, uid: str | None) -> None:
        try:
            await self._client.delete(Job, name, namespace=cron_job.namespace, propagation="Background")
        except NotFound:
            pass
        except APIError as error:
            self._event(cron_job, "Warning", "FailedDelete", f"Deleted job: {error}")
            raise
        _remove_active(cron_job, uid)
        self._event(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name}")

    async def _delete_old_jobs(self, cron_job: CronJob, jobs: list[Job]) -> None:
        """Delete finished Jobs beyond the history limits, the oldest first."""
        spec = cron_job.spec
        assert spec is not None
        latest = datetime.max.replace(tzinfo=UTC)

        def started(job: Job) -> tuple[datetime, str]:
            return (job.status.start_time if job.status is not None else None) or latest, job.name

        limits = {"Complete": spec.successful_jobs_history_limit, "Failed": spec.failed_jobs_history_limit}
        for condition, limit in limits.items():
            finished = sorted((job for job in jobs if _finished_condition(job) == condition), key=started)
            if limit is not None and len(finished) > limit:
                for job in finished[: len(finished) - limit]:
                    if job.metadata.deletion_timestamp is None:
                        await self._delete(cron_job, job.name, job.metadata.uid)


def _finished_condition(job: Job) -> str:
    """Return the type of the condition that ended a Job; empty if it has not finished."""
    for type_ in ("Complete", "Failed"):
        if is_condition_true(job.status, type_):
            condition = get_condition(job.status, type_)
            return (condition.type if condition is not None else None) or ""
    return ""


def _remove_active(cron_job: CronJob, uid: str | None) -> None:
    status = cron_job.status
    assert status is not None
    status.active = [each for each in status.active or () if each.uid != uid] or None


def _job_name(cron_job: CronJob, due: datetime) -> str:
    return f"{cron_job.name}-{int(due.timestamp()) // 60}"


def _new_job(cron_job: CronJob, due: datetime) -> Job:
    spec = cron_job.spec
    assert spec is not None
    assert spec.job_template is not None
    template = spec.job_template.copy()
    metadata = template.metadata or ObjectMeta()
    local = due.astimezone(load_zone(spec.time_zone or ""))
    stamp = local.isoformat(timespec="seconds")
    annotations = {
        **(metadata.annotations or {}),
        SCHEDULED_TIMESTAMP: stamp.removesuffix("+00:00") + "Z" if not local.utcoffset() else stamp,
    }
    return Job(
        metadata=ObjectMeta(
            name=_job_name(cron_job, due),
            namespace=cron_job.namespace,
            labels=dict(metadata.labels or {}) or None,
            annotations=annotations,
            owner_references=[owner_reference(cron_job, controller=True, block_owner_deletion=True)],
        ),
        spec=template.spec,
    )


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
