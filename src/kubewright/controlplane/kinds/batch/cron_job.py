"""Cron jobs: jobs made on a schedule."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.defaults import default_template
from kubewright.controlplane.kinds.kind import KindStrategy
from kubewright.controlplane.kinds.validation.formats import Errors, choice, non_negative
from kubewright.schema import field_errors as fe

from .job import default_failure_policy, job_errors

_ZONE_PART = re.compile(r"[A-Za-z0-9._+-]+")


class CronJobStrategy(KindStrategy):
    """Cron jobs."""

    tracks_generation = True

    def default(self, version: Version, obj: Object) -> None:
        """Runs may overlap; three successful ones and a failed one are kept."""
        spec: Object = obj.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        inner: Object = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        default_template(inner.setdefault("template", {}))
        default_failure_policy(inner)

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new cron job."""
        errors = _cron_errors(obj["spec"], None)
        name = obj["metadata"].get("name") or ""
        if len(name) > 52:
            errors.append(fe.invalid("metadata.name", name, "must be no more than 52 characters"))
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """A changed cron job; its status is not judged."""
        return [] if op.subresource == "status" else _cron_errors(obj["spec"], old["spec"])

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Unwise templates."""
        if op.subresource or (old is not None and old["spec"] == obj["spec"]):
            return
        from kubewright.controlplane.kinds.core.podspec.warnings import host_name_warnings, pod_warnings

        if old is None:
            yield from host_name_warnings(obj)
        template = obj["spec"]["jobTemplate"]["spec"]["template"]
        yield from pod_warnings(template, "spec.jobTemplate.spec.template")


def _cron_errors(spec: Object, before: Object | None) -> Errors:
    from .cron_schedule import schedule_error

    errors: Errors = []
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not schedule:
        errors.append(fe.required("spec.schedule", ""))
    else:
        wrong = schedule_error(schedule)
        if wrong:
            errors.append(fe.invalid("spec.schedule", schedule, wrong))
        tolerated = before is not None and "TZ" in (before.get("schedule") or "")
        if "TZ" in schedule and not tolerated:
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(fe.invalid("spec.schedule", schedule, text))
        elif "TZ" in schedule and zone is not None:
            text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(fe.invalid("spec.schedule", schedule, text))
    errors += non_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    if before is None or before.get("timeZone") != zone:
        errors += _zone_errors(zone, "spec.timeZone")
    errors += choice(spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"), "spec.concurrencyPolicy")
    inner = spec["jobTemplate"]["spec"]
    errors += job_errors(inner, "spec.jobTemplate.spec")
    if inner.get("selector") is not None:
        text = "`selector` will be auto-generated"
        errors.append(fe.invalid("spec.jobTemplate.spec.selector", inner["selector"], text))
    if inner.get("manualSelector"):
        errors.append(fe.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += non_negative(spec.get(field), f"spec.{field}")
    return errors


def _zone_errors(zone: str | None, path: str) -> Errors:
    if zone is None:
        return []
    if not zone:
        return [fe.invalid(path, zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in parts):
        return [fe.invalid(path, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors = [fe.invalid(path, zone, text)]
        if zone != "Local":
            errors.append(fe.invalid(path, zone, f"unknown time zone {zone}"))
        return errors
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return [fe.invalid(path, zone, f"unknown time zone {zone}")]
    return []
