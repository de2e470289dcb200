"""Rules of `metav1.Condition`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubewright.apiserver.objects import Object
from kubewright.schema import field_errors as fe

from .formats import Errors, qualified_name

STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or"
    " 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is"
    " '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def condition_list_errors(conditions: Iterable[Object], path: str) -> Errors:
    """Check the conditions of a status."""
    errors: Errors = []
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        where, name = f"{path}[{position}]", condition.get("type") or ""
        if name in seen:
            errors.append(fe.duplicate(where, name))
        seen.add(name)
        errors += _condition_errors(condition, name, where)
    return errors


def _condition_errors(condition: Object, name: str, path: str) -> Errors:
    errors = qualified_name(name, f"{path}.type")
    status, reason = condition.get("status") or "", condition.get("reason") or ""
    if status not in STATUSES:
        errors.append(fe.not_supported(f"{path}.status", status, STATUSES))
    if (condition.get("observedGeneration") or 0) < 0:
        text = "must be greater than or equal to zero"
        errors.append(fe.invalid(f"{path}.observedGeneration", condition["observedGeneration"], text))
    if not condition.get("lastTransitionTime"):
        errors.append(fe.required(f"{path}.lastTransitionTime", ""))
    if not reason:
        errors.append(fe.required(f"{path}.reason", ""))
    else:
        if not _REASON.fullmatch(reason):
            errors.append(fe.invalid(f"{path}.reason", reason, _REASON_RULE))
        if len(reason.encode()) > 1024:
            errors.append(fe.too_long(f"{path}.reason", 1024))
    if len((condition.get("message") or "").encode()) > 32 * 1024:
        errors.append(fe.too_long(f"{path}.message", 32 * 1024))
    return errors
