"""Between v1 and v2: one text, or five parts. Nothing is lost either way.

Most schedules have one spelling in each version. Those that do not (`@hourly`, double spaces, a part that
says `*` instead of nothing) travel in an annotation beside the nearest spelling that the other version has.
The annotation is used for the conversion back only if the schedule has not changed.
"""

from __future__ import annotations

from typing import Any

from kubewright import Converter, ObjectMeta
from kubewright.api import codec

from . import v1, v2
from .schedule import MACROS

V1_SPELLING = f"{v1.GROUP}/v1-schedule"
"""On v2 objects: how the schedule was written in v1."""
V2_SPELLING = f"{v1.GROUP}/v2-schedule"
"""On v1 objects: how the schedule was written in v2, as JSON."""
_FIELDS = ("minute", "hour", "day_of_month", "month", "day_of_week")


def text_of(parts: v2.CronSchedule) -> str:
    """The five parts as one text."""
    return " ".join(getattr(parts, name) or "*" for name in _FIELDS)


def parts_of(text: str) -> v2.CronSchedule:
    """A text as five parts; one without five fields is kept whole, so that all see it is wrong."""
    fields = MACROS.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS):
        return v2.CronSchedule(minute=text)
    return v2.CronSchedule(
        **{name: field for name, field in zip(_FIELDS, fields, strict=True) if field != "*"}
    )


def to_v1(cron_job: v2.CronJob) -> v1.CronJob:
    """A v2 object as v1."""
    parts = cron_job.spec.schedule
    annotations = dict(cron_job.metadata.annotations or {})
    spelled = annotations.pop(V1_SPELLING, None)
    annotations.pop(V2_SPELLING, None)
    if spelled is not None and parts_of(spelled) == parts:
        text = spelled
    else:
        text = text_of(parts)
        if parts_of(text) != parts:
            annotations[V2_SPELLING] = codec.encode(parts).decode()
    return v1.CronJob(
        metadata=_annotated(cron_job.metadata, annotations),
        spec=v1.CronJobSpec(schedule=text, **_settings(cron_job.spec)),
        status=cron_job.status,
    )


def to_v2(cron_job: v1.CronJob) -> v2.CronJob:
    """A v1 object as v2."""
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
    """What both versions say in the same words."""
    return {name: getattr(spec, name) for name in v1.JobSettings.__struct_fields__}


def _spelled_parts(spelled: str | None) -> v2.CronSchedule | None:
    if spelled is None:
        return None
    try:
        return codec.decode(spelled.encode(), v2.CronSchedule)
    except codec.DecodeError:
        return None


converter = Converter(v1.CronJob)
converter.spoke(v2.CronJob, to_hub=to_v1, from_hub=to_v2)
