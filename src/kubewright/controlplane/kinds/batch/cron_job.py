"""CronJob."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.defaults import default_template
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.kind import STATUS, Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, UNSET, column, counted, field, shown, since
from kubewright.controlplane.kinds.validation import (
    NOT_NEGATIVE,
    Check,
    Enum,
    Errors,
    Required,
    Rules,
)
from kubewright.controlplane.kinds.workload import selector_column, template_columns
from kubewright.schema import field_errors as fe

from .job_spec import FAILURE_POLICY_DEFAULTS, JOB_SPEC_RULES

_ZONE_PART = re.compile(r"[A-Za-z0-9._+-]+")
_DEFAULTS = Defaults(
    {
        "spec": {},
        "spec.concurrencyPolicy": IfEmpty("Allow"),
        "spec.suspend": False,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1,
        "spec.jobTemplate": {},
        "spec.jobTemplate.spec": {},
        "spec.jobTemplate.spec.template": {},
    }
)


def _default(obj: Object) -> None:
    _DEFAULTS(obj)
    job = obj["spec"]["jobTemplate"]["spec"]
    default_template(job["template"])
    FAILURE_POLICY_DEFAULTS(job)


def _schedule_errors(spec: Object, path: str, before: Object) -> Errors:
    from kubewright.api.values.cron_schedules import ScheduleError, parse_schedule

    schedule, path = spec.get("schedule") or "", f"{path}.schedule"
    if not schedule:
        return [fe.required(path, "")]
    errors: Errors = []
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        errors.append(fe.invalid(path, schedule, str(error)))
    if "TZ" not in schedule:
        return errors
    if "TZ" not in (before.get("schedule") or ""):
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(fe.invalid(path, schedule, text))
    elif spec.get("timeZone") is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(fe.invalid(path, schedule, text))
    return errors


def _time_zone_errors(zone: str, path: str, before: Object) -> Errors:
    if zone == before.get("timeZone"):
        return []
    if not zone:
        return [fe.invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = fe.invalid(path, zone, f"unknown time zone {zone}")
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in parts):
        return [unknown]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        explicit = fe.invalid(path, zone, text)
        return [explicit] if zone == "Local" else [explicit, unknown]
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return [unknown]
    return []


def _no_selector(selector: Object, path: str) -> Errors:
    return [fe.invalid(path, selector, "`selector` will be auto-generated")]


def _no_manual_selector(value: bool, path: str) -> Errors:
    return [fe.not_supported(path, True, ("nil", "false"))] if value else []


RULES = Rules(
    {
        "spec": {
            "": Check(_schedule_errors, context=True),
            "startingDeadlineSeconds": NOT_NEGATIVE,
            "timeZone": Check(_time_zone_errors, context=True),
            "concurrencyPolicy": [Required(), Enum("Allow", "Forbid", "Replace")],
            "jobTemplate.spec": JOB_SPEC_RULES,
            "jobTemplate.spec.selector": _no_selector,
            "jobTemplate.spec.manualSelector": _no_manual_selector,
            "successfulJobsHistoryLimit": NOT_NEGATIVE,
            "failedJobsHistoryLimit": NOT_NEGATIVE,
        }
    }
)
"""The context is the spec of the old object."""


def _validate(obj: Object) -> Errors:
    errors = RULES(obj, context={})
    name = obj["metadata"].get("name") or ""
    if len(name) > 52:
        errors.append(fe.invalid("metadata.name", name, "must be no more than 52 characters"))
    return errors


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    if old is not None and old["spec"] == obj["spec"]:
        return
    from kubewright.controlplane.kinds.core.podspec.warnings import host_name_warnings, pod_warnings

    if old is None:
        yield from host_name_warnings(obj)
    template = obj["spec"]["jobTemplate"]["spec"]["template"]
    yield from pod_warnings(template, "spec.jobTemplate.spec.template")


def _time_zone(obj: Object) -> str:
    return field(obj, "spec.timeZone") or NONE


def _last_schedule(obj: Object) -> str:
    last = field(obj, "status.lastScheduleTime")
    return since(last) if last else NONE


def _suspend(obj: Object) -> str:
    return str(field(obj, "spec.suspend", UNSET))


KINDS = {
    "cronjobs": Kind(
        default=_default,
        validate=_validate,
        validate_update=lambda new, old: RULES(new, context=old["spec"]),
        warnings=_warnings,
        generation_fields=("spec",),
        columns=(
            column("Schedule", shown("spec.schedule"), description="Schedule in cron format."),
            column("Timezone", _time_zone, description="Time zone of the schedule."),
            column("Suspend", _suspend, type="boolean", description="Whether the schedule is suspended."),
            column("Active", counted("status.active"), type="integer", description="Number of running jobs."),
            column("Last Schedule", _last_schedule, description="Time since the last job was created."),
            AGE,
            *template_columns("spec.jobTemplate.spec.template"),
            selector_column("spec.jobTemplate.spec.selector"),
        ),
        subresources={"status": STATUS},
    ),
}
