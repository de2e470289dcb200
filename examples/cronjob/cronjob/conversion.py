"""Lossless conversion between v1 (schedule as one string) and v2 (schedule as five fields).

Most schedules have one spelling in each version. Others (`@hourly`, double spaces, an explicit `*`) are
stored in an annotation beside the nearest spelling of the other version. The annotation is used for the
conversion back only if the schedule has not changed.
"""

from __future__ import annotations

from typing import Any

from kubewright import Converter, ObjectMeta
from kubewright.api import DecodeError, decode, encode

from . import v1, v2
from .schedule import DESCRIPTORS

V1_SPELLING = f"{v1.GROUP}/v1-schedule"
"""Annotation of v2 objects with the spelling of the schedule in v1."""
V2_SPELLING = f"{v1.GROUP}/v2-schedule"
"""Annotation of v1 objects with the schedule of v2, as JSON."""
_FIELDS = ("minute", "hour", "day_of_month", "month", "day_of_week")


def text_of(parts: v2.CronSchedule) -> str:
    """Join the five fields."""
    return " ".join(getattr(parts, name) or "*" for name in _FIELDS)


def parts_of(text: str) -> v2.CronSchedule:
    """Split a schedule into five fields; another number of fields becomes an invalid minute."""
    fields = DESCRIPTORS.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS):
        return v2.CronSchedule(minute=text)
    return v2.CronSchedule(
        **{name: field for name, field in zip(_FIELDS, fields, strict=True) if field != "*"}
    )


def to_v1(cron_job: v2.CronJob) -> v1.CronJob:
    """Convert a v2 object to v1."""
    parts = cron_job.spec.schedule
    annotations = dict(cron_job.metadata.annotations or {})
    spelled = annotations.pop(V1_SPELLING, None)
    annotations.pop(V2_SPELLING, None)
    if spelled is not None and parts_of(spelled) == parts:
        text = spelled
    else:
        text = text_of(parts)
        if parts_of(text) != parts:
            annotations[V2_SPELLING] = encode(parts).decode()
    return v1.CronJob(
        metadata=_annotated(cron_job.metadata, annotations),
        spec=v1.CronJobSpec(schedule=text, **_settings(cron_job.spec)),
        status=cron_job.status,
    )


def to_v2(cron_job: v1.CronJob) -> v2.CronJob:
    """Convert a v1 object to v2."""
    text = cron_job.spec.schedule
    annotations = dict(cron_job.metadata.annotations or {})
    spelled = annotations.pop(V2_SPELLING, None)
    annotations.pop(V1_SPELLING, None)
    parts = _spelled_parts(spelled)
    if parts is None or text_of(parts) != text:
        parts = parts_of(text)
        if text_of(parts) != text:
            annotations[V1_SPELLING] = text
    return v2.CronJob(
        metadata=_annotated(cron_job.metadata, annotations),
        spec=v2.CronJobSpec(schedule=parts, **_settings(cron_job.spec)),
        status=cron_job.status,
    )


def _annotated(metadata: ObjectMeta, annotations: dict[str, str]) -> ObjectMeta:
    changed = metadata.copy()
    changed.annotations = annotations
    return changed


def _settings(spec: v1.JobSettings) -> dict[str, Any]:
    """Return the fields that both versions share."""
    return {name: getattr(spec, name) for name in v1.JobSettings.__struct_fields__}


def _spelled_parts(spelled: str | None) -> v2.CronSchedule | None:
    if spelled is None:
        return None
    try:
        return decode(spelled.encode(), v2.CronSchedule)
    except DecodeError:
        return None


converter = Converter(v1.CronJob)
converter.spoke(v2.CronJob, to_hub=to_v1, from_hub=to_v2)
