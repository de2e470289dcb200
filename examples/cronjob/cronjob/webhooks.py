"""Defaulting and validating webhooks of both versions of CronJob."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright import FieldError, ObjectMeta, Operator

from . import v1, v2
from .schedule import ScheduleError, parse

LONGEST_NAME = 52
"""Names of Jobs are eleven characters longer than that of the CronJob; names are limited to 63."""
_PATHS = ("minute", "hour", "dayOfMonth", "month", "dayOfWeek")


def fill(spec: v1.JobSettings) -> None:
    """Set the defaults of both versions."""
    if spec.concurrency_policy is None:
        spec.concurrency_policy = v1.ConcurrencyPolicy.ALLOW
    if spec.suspend is None:
        spec.suspend = False
    if spec.successful_jobs_history_limit is None:
        spec.successful_jobs_history_limit = 3
    if spec.failed_jobs_history_limit is None:
        spec.failed_jobs_history_limit = 1


def fill_v1(cron_job: v1.CronJob) -> None:
    """Set the defaults of a v1 object."""
    fill(cron_job.spec)


def fill_v2(cron_job: v2.CronJob) -> None:
    """Set the defaults of a v2 object."""
    fill(cron_job.spec)


def check_v1(new: v1.CronJob, old: v1.CronJob | None) -> Iterable[FieldError]:
    """Return all validation errors of a v1 object."""
    yield from _check_name(new.metadata)
    try:
        parse(new.spec.schedule)
    except ScheduleError as error:
        yield FieldError.invalid("spec.schedule", new.spec.schedule, str(error))


def check_v2(new: v2.CronJob, old: v2.CronJob | None) -> Iterable[FieldError]:
    """Return all validation errors of a v2 object."""
    yield from _check_name(new.metadata)
    schedule = new.spec.schedule
    fields = (schedule.minute, schedule.hour, schedule.day_of_month, schedule.month, schedule.day_of_week)
    wrong = False
    for index, (path, text) in enumerate(zip(_PATHS, fields, strict=True)):
        alone = ["*"] * len(fields)
        alone[index] = text or "*"
        try:
            parse(" ".join(alone))
        except ScheduleError as error:
            wrong = True
            yield FieldError.invalid(f"spec.schedule.{path}", text, str(error))
    if not wrong:
        try:
            parse(" ".join(text or "*" for text in fields))
        except ScheduleError as error:
            yield FieldError.forbidden("spec.schedule", str(error))


def _check_name(metadata: ObjectMeta) -> Iterable[FieldError]:
    name = metadata.name or ""
    if len(name) > LONGEST_NAME:
        yield FieldError.invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")


def add_to(operator: Operator) -> None:
    """Register the webhooks with an operator."""
    operator.default(v1.CronJob)(fill_v1)
    operator.default(v2.CronJob)(fill_v2)
    operator.validate(v1.CronJob)(check_v1)
    operator.validate(v2.CronJob)(check_v2)
