"""Pod disruption budgets: `policy`."""

from __future__ import annotations

from typing import Any

from kubewright.api.names import check_path_segment
from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, field, shown
from kubewright.controlplane.kinds.validation.conditions import condition_list_errors
from kubewright.controlplane.kinds.validation.formats import Errors, at_most_all, int_or_percent, non_negative
from kubewright.schema import field_errors as fe

EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _errors(budget: Object) -> Errors:
    spec = budget.get("spec") or {}
    errors: Errors = []
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shape = fe.GoStruct(
            MinAvailable=low,
            Selector=spec.get("selector"),
            MaxUnavailable=high,
            UnhealthyPodEvictionPolicy=spec.get("unhealthyPodEvictionPolicy"),
        )
        errors.append(fe.invalid("spec", shape, "minAvailable and maxUnavailable cannot be both set"))
    for name, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            errors += int_or_percent(value, f"spec.{name}") + at_most_all(value, f"spec.{name}")
    errors += selector_errors(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in EVICTION_POLICIES:
        errors.append(fe.not_supported("spec.unhealthyPodEvictionPolicy", policy, EVICTION_POLICIES))
    return errors


def _status_errors(new: Object, old: Object) -> Errors:
    status = new.get("status") or {}
    errors = condition_list_errors(status.get("conditions") or (), "status.conditions")
    for name in _COUNTS:
        errors += non_negative(status.get(name), f"status.{name}")
    return errors


def _amount(path: str) -> Any:
    return lambda obj: str(field(obj, path, "N/A"))


KINDS = {
    "poddisruptionbudgets": Kind(
        validate=_errors,
        validate_status=_status_errors,
        validate_name=check_path_segment,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        columns=(
            column(
                "Min Available", _amount("spec.minAvailable"), description="Pods that have to stay available."
            ),
            column(
                "Max Unavailable",
                _amount("spec.maxUnavailable"),
                description="Pods that may be unavailable at a time.",
            ),
            column(
                "Allowed Disruptions",
                shown("status.disruptionsAllowed", 0),
                type="integer",
                description="Pods that may be disrupted now.",
            ),
            AGE,
        ),
        rechecks_metadata=False,
        any_finalizer=True,
    ),
}
