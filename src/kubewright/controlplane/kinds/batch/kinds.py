"""The group `batch`: jobs and cron jobs."""

from __future__ import annotations

from typing import Any

from kubewright.api.times import parse_time
from kubewright.apiserver.objects import Object
from kubewright.apiserver.subresource import StatusSubresource
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    age_of,
    column,
    condition_is,
    container_cells,
    label_selector_text,
    name_of,
    since,
)
from kubewright.schema.crd.columns import human_duration

from .cron_job import CronJobStrategy
from .job import JobStrategy

_STATUS = StatusSubresource(keeps_metadata=False)


def _job_cells(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    succeeded = status.get("succeeded") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif (spec.get("parallelism") or 0) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    start, end, duration = status.get("startTime"), status.get("completionTime"), ""
    if start is not None:
        duration = human_duration(parse_time(end) - parse_time(start)) if end else since(start)
    return [
        name_of(obj),
        _job_state(obj),
        completions,
        duration,
        age_of(obj),
        *container_cells(spec.get("template")),
        label_selector_text(spec.get("selector")),
    ]


def _job_state(obj: Object) -> str:
    for kind in ("Complete", "Failed"):
        if condition_is(obj, kind):
            return kind
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_is(obj, kind):
            return kind
    return "Running"


def _cron_cells(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspend = spec.get("suspend")
    last = status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        "<unset>" if suspend is None else str(suspend),
        len(status.get("active") or ()),
        since(last) if last else NONE,
        age_of(obj),
        *container_cells(inner.get("template")),
        label_selector_text(inner.get("selector")),
    ]


def _successful(obj: Object) -> str:
    return str((obj.get("status") or {}).get("succeeded") or 0)


_SELECTOR = column("Selector", description="Label selector of the pods.", wide=True)

KINDS = {
    "jobs": Kind(
        strategy=JobStrategy,
        columns=(
            NAME,
            column("Status", description="Status of the job."),
            column("Completions", description="How many pods have succeeded, of how many."),
            column("Duration", description="Time required to complete the job."),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        ),
        cells=_job_cells,
        field_selectors={"status.successful": _successful},
        subresources={"status": _STATUS},
        checks_whole_on_update=True,
    ),
    "cronjobs": Kind(
        strategy=CronJobStrategy,
        columns=(
            NAME,
            column("Schedule", description="When jobs are made."),
            column("Timezone", description="The time zone of the schedule."),
            column("Suspend", description="Whether no further jobs are made.", type="boolean"),
            column("Active", description="How many jobs run now.", type="integer"),
            column("Last Schedule", description="When a job was last made."),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        ),
        cells=_cron_cells,
        subresources={"status": _STATUS},
    ),
}
