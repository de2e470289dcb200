"""Validation of the status of a Job: consistent counts, conditions and indexes that are not reverted.

Most rules apply only to what an update changes, so that a job with an inconsistent status can be updated.
"""

from __future__ import annotations

from kubewright.api.field_errors import FieldError
from kubewright.api.values.go_format import quote
from kubewright.api.values.times import parse_time
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.printing import condition_is
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Errors, Rules, UpdateRules
from kubewright.schema import field_errors as fe

_CONDITIONS = "status.conditions"
_UNCOUNTED = "status.uncountedTerminatedPods"


class IndexesError(ValueError):
    """A malformed list of indexes."""


def index_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the intervals of a list such as `0,3-5`; raise `IndexesError` if it is malformed."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if found and found[-1][1] >= first:
            raise IndexesError(f"non-increasing order, previous: {found[-1][1]}, current: {first}")
        found.append((first, last))
    return found


def _interval(part: str, completions: int) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > 2:
        raise IndexesError(
            f"the fragment {quote(part)} violates the requirement that an index interval can have at most "
            "two parts separated by '-'"
        )
    numbers: list[int] = []
    for end in ends:
        if not (end.isascii() and end.removeprefix("+").isdigit()):
            raise IndexesError(f"cannot convert string to integer for index: {quote(end)}")
        if int(end) >= completions:
            raise IndexesError(f"too large index: {quote(end)}")
        numbers.append(int(end))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _uncounted_errors(uncounted: Object, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(kind) or ()):
            if not uid:
                errors.append(fe.invalid(f"{path}.{kind}[{index}]", uid, "must not be empty"))
            elif uid in seen:
                errors.append(fe.duplicate(f"{path}.{kind}[{index}]", uid))
            seen.add(uid)
    return errors


STATUS_RULES = Rules(
    {
        "status.active": NOT_NEGATIVE,
        "status.succeeded": NOT_NEGATIVE,
        "status.failed": NOT_NEGATIVE,
        "status.ready": NOT_NEGATIVE,
        "status.terminating": NOT_NEGATIVE,
        _UNCOUNTED: _uncounted_errors,
    }
)


class _Change:
    """What an update changes in a status."""

    def __init__(self, obj: Object, old: Object) -> None:
        self.status, self.before = obj.get("status") or {}, old.get("status") or {}
        self.is_now = {type_: condition_is(obj, type_) for type_ in _TYPES}
        self.was = {type_: condition_is(old, type_) for type_ in _TYPES}
        self.finished = self.is_now["Complete"] or self.is_now["Failed"]
        self.finishes = self.finished != (self.was["Complete"] or self.was["Failed"])

    def toggled(self, *types: str) -> bool:
        """Return whether one of these conditions has become true or is no longer true."""
        return any(self.is_now[type_] != self.was[type_] for type_ in types)

    def changed(self, *fields: str) -> bool:
        """Return whether one of these fields has changed."""
        return any(self.status.get(field) != self.before.get(field) for field in fields)


_TYPES = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


def _condition_error(text: str) -> FieldError:
    return fe.invalid(_CONDITIONS, fe.OMIT, text)


def _finish_errors(obj: Object, old: Object) -> Errors:
    change = _Change(obj, old)
    status, now = change.status, change.is_now
    complete, failed, path = now["Complete"], now["Failed"], "status.completionTime"
    ended, started = status.get("completionTime"), status.get("startTime")
    errors: Errors = []
    if complete and failed and change.toggled("Complete", "Failed"):
        errors.append(_condition_error("cannot set Complete=True and Failed=true conditions"))
    if complete and now["FailureTarget"] and change.toggled("Complete", "FailureTarget"):
        errors.append(_condition_error("cannot set Complete=True and FailureTarget=true conditions"))
    if change.toggled("Complete") or change.changed("completionTime"):
        if ended is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(fe.invalid(path, ended, text))
        if ended is None and complete:
            errors.append(fe.required(path, "completionTime is required for Complete jobs"))
    moved = change.changed("startTime", "completionTime")
    if moved and started and ended and parse_time(ended) < parse_time(started):
        errors.append(fe.invalid(path, ended, "must be equal to or after `startTime`"))
    if failed and not now["FailureTarget"] and (change.toggled("Failed") or change.changed("failedIndexes")):
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.append(_condition_error(text))
    if complete and not now["SuccessCriteriaMet"] and change.toggled("Complete", "SuccessCriteriaMet"):
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_condition_error(text))
    if not change.finished:
        return errors
    if (status.get("active") or 0) > 0 and (change.finishes or change.changed("active")):
        errors.append(fe.invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    is_idle = obj["spec"].get("suspend") and obj["spec"].get("completions") == 0
    if started is None and (change.finishes or change.changed("startTime")) and not is_idle:
        errors.append(fe.required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (change.finishes or change.changed("uncountedTerminatedPods")):
        value = fe.GoStruct({"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")})
        errors.append(fe.invalid(_UNCOUNTED, value, "must be empty for finished job"))
    return errors


def _index_errors(obj: Object, old: Object) -> Errors:
    change, spec = _Change(obj, old), obj["spec"]
    completed, failed = change.status.get("completedIndexes") or "", change.status.get("failedIndexes")
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex")
    errors: Errors = []
    intervals: dict[str, list[tuple[int, int]]] = {"completedIndexes": [], "failedIndexes": []}
    for field, text in (("completedIndexes", completed), ("failedIndexes", failed)):
        try:
            intervals[field] = index_intervals(text or "", completions or 0)
        except IndexesError as error:
            is_used = field == "completedIndexes" or per_index is not None
            if completions is not None and is_used and change.changed(field):
                errors.append(fe.invalid(f"status.{field}", text, f"error parsing {field}: {error}"))
    if change.changed("completedIndexes") and completed and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(fe.invalid("status.completedIndexes", completed, text))
    if change.changed("failedIndexes") and failed is not None and per_index is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(fe.invalid("status.failedIndexes", failed, text))
    if completions is not None and change.changed("failedIndexes", "completedIndexes"):
        shared = [
            max(one[0], other[0])
            for one in intervals["completedIndexes"]
            for other in intervals["failedIndexes"]
            if one[0] <= other[1] and other[0] <= one[1]
        ]
        if shared:
            text = f"failedIndexes and completedIndexes overlap at index: {min(shared)}"
            errors.append(fe.invalid("status.failedIndexes", failed, text))
    return errors


def _count_errors(obj: Object, old: Object) -> Errors:
    change = _Change(obj, old)
    terminating, ready = change.status.get("terminating") or 0, change.status.get("ready")
    errors: Errors = []
    if terminating > 0 and change.finished and (change.finishes or change.changed("terminating")):
        text = "terminating>0 is invalid for finished job"
        errors.append(fe.invalid("status.terminating", terminating, text))
    if ready is not None and change.changed("ready", "active") and ready > (change.status.get("active") or 0):
        errors.append(fe.invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _success_errors(obj: Object, old: Object) -> Errors:
    succeeds = condition_is(obj, "SuccessCriteriaMet")
    errors: Errors = [
        _condition_error(f"cannot set SuccessCriteriaMet=True and {other}=true conditions")
        for other in ("Failed", "FailureTarget")
        if succeeds and condition_is(obj, other)
    ]
    if obj["spec"].get("successPolicy") is not None and not succeeds and condition_is(obj, "Complete"):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_condition_error(text))
    return errors


def _transition_errors(obj: Object, old: Object) -> Errors:
    change, spec = _Change(obj, old), obj["spec"]
    status, before = change.status, change.before
    errors: Errors = [
        _condition_error(f"cannot disable the terminal {type_}=True condition")
        for type_ in ("Failed", "Complete", "FailureTarget")
        if change.was[type_] and not change.is_now[type_]
    ]
    shrinks = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        count = status.get(field) or 0
        if count < (before.get(field) or 0) and not (field == "succeeded" and shrinks):
            errors.append(fe.invalid(f"status.{field}", count, f"cannot decrease the {field} counter"))
    ended, earlier = status.get("completionTime"), before.get("completionTime")
    if ended is not None and earlier is not None and ended != earlier:
        errors.append(fe.invalid("status.completionTime", ended, "field is immutable"))
    resumes = condition_is(old, "Suspended") and condition_is(obj, "Suspended", "False")
    restarted = before.get("startTime") is not None and change.changed("startTime")
    if restarted and not spec.get("suspend") and not resumes:
        text = "field is immutable for unsuspended job once set"
        errors.append(fe.invalid("status.startTime", status.get("startTime"), text))
    if change.was["SuccessCriteriaMet"] and not change.is_now["SuccessCriteriaMet"]:
        errors.append(_condition_error("cannot disable the SuccessCriteriaMet=True condition"))
    if (
        change.was["Complete"]
        and not change.was["SuccessCriteriaMet"]
        and change.is_now["SuccessCriteriaMet"]
    ):
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(_condition_error(text))
    return errors


validate_job_status = UpdateRules(
    STATUS_RULES, _finish_errors, _index_errors, _count_errors, _success_errors, _transition_errors
)
"""Validate an update through the `status` subresource."""
