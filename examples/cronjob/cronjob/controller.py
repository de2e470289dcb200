"""The controller of CronJobs: starts Jobs according to the schedule.

A reconcile lists the Jobs, writes the status, and then deletes and creates Jobs. The process may be killed
between any two writes: the name of a Job is derived from the scheduled time, so a run never starts twice.

The clock is a parameter of the reconciler, so that tests control time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright import Condition, Context, ObjectMeta, Operator, Result, set_condition
from kubewright.api import (
    AlreadyExists,
    APIError,
    format_time,
    get_condition,
    is_condition_true,
    is_controlled_by,
    parse_time,
)
from kubewright.api import now as utc_now
from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import ObjectReference
from kubewright.controller import generation_changed

from .schedule import ScheduleError, parse, runs
from .v1 import GROUP, MOST_ACTIVE, ConcurrencyPolicy, CronJob, TemplateMetadata

SCHEDULED_AT = f"{GROUP}/scheduled-at"
"""Annotation of Jobs with the scheduled time."""
MOST_MISSED = 100
"""More missed runs than this are not started: the clock is wrong, or the operator was stopped for long."""


@dataclass(slots=True)
class Jobs:
    """The Jobs of a CronJob: active, successful, failed."""

    active: list[Job] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    successful: list[Job] = field(default_factory=list)
    last_schedule: datetime | None = None


@dataclass(slots=True)
class Plan:
    """The next run, and the run that is due."""

    run: datetime | None = None
    """The run to start now."""
    next: datetime | None = None
    """Time of the next run."""
    problem: tuple[str, str] | None = None
    """Reason and message if no run can start."""


def plan(cron_job: CronJob, last: datetime | None, now: datetime) -> Plan:
    """Return the run that is due at a time after the last scheduled time."""
    spec = cron_job.spec
    if spec.suspend:
        return Plan()
    try:
        schedule = parse(spec.schedule)
    except ScheduleError as error:
        return Plan(problem=("InvalidSchedule", f"use five fields or a name such as @hourly: {error}"))
    since = last or cron_job.metadata.creation_timestamp or now
    too_late = False
    if spec.starting_deadline_seconds is not None:
        earliest = now - timedelta(seconds=spec.starting_deadline_seconds)
        if earliest > since:
            first = schedule.next(since)
            too_late = first is not None and first <= earliest
            since = earliest
    following = schedule.next(now)
    due: datetime | None = None
    for missed, run in enumerate(runs(schedule, since)):
        if run > now:
            break
        if missed >= MOST_MISSED:
            return Plan(
                problem=(
                    "TooManyMissedRuns",
                    f"more than {MOST_MISSED} runs were missed: set or shorten startingDeadlineSeconds, "
                    "or check the clocks",
                )
            )
        due = run
    if due is None and too_late:
        return Plan(
            next=following, problem=("MissedSchedule", "a run could not start before its deadline was over")
        )
    return Plan(run=due, next=following)


class CronJobReconciler:
    """Reconciles CronJobs."""

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self.now = now

    async def reconcile(self, cron_job: CronJob, ctx: Context[CronJob]) -> Result | None:
        """Start a due run and update the status."""
        if not cron_job.status.conditions:
            self._say(cron_job, "Progressing", "Unknown", "Reconciling", "Starting the first reconcile")
            await ctx.update_status()
        status = cron_job.status
        jobs = await self._jobs(cron_job, ctx)
        now = self.now()
        last = max(filter(None, (jobs.last_schedule, status.last_schedule_time)), default=None)
        planned = plan(cron_job, last, now)

        status.last_schedule_time = last
        status.active = [_reference(job) for job in jobs.active[-MOST_ACTIVE:]] or None
        self._say_what_is(cron_job, jobs, planned)
        await ctx.update_status()
        await self._forget_old(cron_job, jobs, ctx)
        if planned.run is not None:
            await self._run(cron_job, planned.run, jobs.active, ctx)
        elif planned.problem is not None:
            ctx.event("Warning", *planned.problem)
        return None if planned.next is None else Result(requeue_after=planned.next - now)

    async def _jobs(self, cron_job: CronJob, ctx: Context[CronJob]) -> Jobs:
        """Return the Jobs of the CronJob, oldest first."""
        uid = cron_job.metadata.uid or ""
        jobs = Jobs()
        for job in await ctx.cache.list(Job, namespace=cron_job.metadata.namespace, owner=uid):
            if not is_controlled_by(job, cron_job):
                continue
            if is_condition_true(job.status, "Complete"):
                jobs.successful.append(job)
            elif is_condition_true(job.status, "Failed"):
                jobs.failed.append(job)
            else:
                jobs.active.append(job)
            due = _scheduled_at(job, ctx)
            if due is not None and (jobs.last_schedule is None or due > jobs.last_schedule):
                jobs.last_schedule = due
        for some in (jobs.active, jobs.failed, jobs.successful):
            some.sort(key=_age)
        return jobs

    def _say_what_is(self, cron_job: CronJob, jobs: Jobs, planned: Plan) -> None:
        """Set the conditions."""
        active = f"{len(jobs.active)} running"
        if jobs.active:
            self._say(cron_job, "Progressing", "True", "JobsActive", active)
        else:
            self._say(cron_job, "Progressing", "False", "NoJobsActive", "nothing runs")
        if cron_job.spec.suspend:
            self._say(cron_job, "Available", "False", "Suspended", "no runs are started")
        elif jobs.failed:
            self._say(cron_job, "Available", "False", "JobsFailed", f"{len(jobs.failed)} failed")
        elif jobs.active:
            self._say(cron_job, "Available", "True", "JobsActive", active)
        else:
            self._say(cron_job, "Available", "True", "AllJobsCompleted", "nothing is left to do")
        if planned.problem is not None:
            self._say(cron_job, "Degraded", "True", *planned.problem)
        elif jobs.failed and not cron_job.spec.suspend:
            self._say(cron_job, "Degraded", "True", "JobsFailed", f"{len(jobs.failed)} failed")
        elif planned.run is None or not _could_not_create(cron_job):
            self._say(cron_job, "Degraded", "False", "AsExpected", "runs start when they are due")

    async def _forget_old(self, cron_job: CronJob, jobs: Jobs, ctx: Context[CronJob]) -> None:
        """Delete the oldest finished Jobs beyond the limits; ignore failures."""
        spec = cron_job.spec
        for finished, limit in (
            (jobs.successful, spec.successful_jobs_history_limit),
            (jobs.failed, spec.failed_jobs_history_limit),
        ):
            if limit is None:
                continue
            for job in finished[: max(0, len(finished) - limit)]:
                try:
                    await ctx.client.delete(job, propagation="Background", missing_ok=True)
                except APIError as error:
                    ctx.log.warning("cannot delete the old job %s: %s", job.metadata.name, error)

    async def _run(
        self, cron_job: CronJob, due: datetime, active: Sequence[Job], ctx: Context[CronJob]
    ) -> None:
        """Start a run if the concurrency policy allows it."""
        policy = cron_job.spec.concurrency_policy
        if policy is ConcurrencyPolicy.FORBID and active:
            ctx.log.info("the run of %s is left out: %d running", format_time(due), len(active))
            return
        if policy is ConcurrencyPolicy.REPLACE:
            for job in active:
                await ctx.client.delete(job, propagation="Background", missing_ok=True)
        job = ctx.own(job_for(cron_job, due))
        status = cron_job.status
        try:
            await ctx.client.create(job)
        except AlreadyExists:
            existing = await ctx.client.uncached.get(Job, job.name, namespace=job.namespace)
            if not is_controlled_by(existing, cron_job):
                await self._could_not_run(cron_job, f"Job {job.metadata.name} has another owner", ctx)
                raise
        except APIError as error:
            await self._could_not_run(cron_job, error.message, ctx)
            raise
        else:
            ctx.event("Normal", "JobCreated", f"created the job {job.metadata.name}")
        status.last_schedule_time = due
        self._say(cron_job, "Progressing", "True", "JobCreated", f"created the job {job.metadata.name}")
        self._say(cron_job, "Degraded", "False", "AsExpected", "runs start when they are due")
        await ctx.update_status()

    async def _could_not_run(self, cron_job: CronJob, why: str, ctx: Context[CronJob]) -> None:
        self._say(cron_job, "Degraded", "True", "JobCreationFailed", why)
        await ctx.update_status()

    def _say(self, cron_job: CronJob, type: str, status: str, reason: str, message: str) -> None:
        condition = Condition(
            type=type,
            status=status,
            reason=reason,
            message=message,
            observed_generation=cron_job.metadata.generation,
        )
        set_condition(cron_job.status, condition, now=self.now)


def job_for(cron_job: CronJob, due: datetime) -> Job:
    """Return the Job of one run; its name contains the time, so that a run cannot start twice."""
    template = cron_job.spec.job_template.copy()
    metadata = template.metadata or TemplateMetadata()
    return Job(
        metadata=ObjectMeta(
            name=f"{cron_job.metadata.name}-{int(due.timestamp())}",
            namespace=cron_job.metadata.namespace,
            labels=metadata.labels,
            annotations={**(metadata.annotations or {}), SCHEDULED_AT: format_time(due)},
        ),
        spec=template.spec,
    )


def _could_not_create(cron_job: CronJob) -> bool:
    """Whether the last attempt to create a Job failed."""
    degraded = get_condition(cron_job.status, "Degraded")
    return degraded is not None and degraded.reason == "JobCreationFailed"


def _scheduled_at(job: Job, ctx: Context[CronJob]) -> datetime | None:
    text = (job.metadata.annotations or {}).get(SCHEDULED_AT)
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        ctx.log.warning("the job %s does not tell when it was due: %s", job.metadata.name, error)
        return None


def _age(job: Job) -> tuple[bool, float, str]:
    """Sort key of Jobs: start time, unstarted Jobs first."""
    start = job.status.start_time if job.status is not None else None
    return start is not None, start.timestamp() if start is not None else 0.0, job.name


def _reference(job: Job) -> ObjectReference:
    metadata = job.metadata
    return ObjectReference(
        api_version="batch/v1", kind="Job", name=metadata.name, namespace=metadata.namespace, uid=metadata.uid
    )


def add_to(operator: Operator, now: Callable[[], datetime] = utc_now) -> None:
    """Register the controller with an operator."""
    reconciler = CronJobReconciler(now)
    operator.reconcile(CronJob, owns=(Job,), predicates=(generation_changed,))(reconciler.reconcile)
