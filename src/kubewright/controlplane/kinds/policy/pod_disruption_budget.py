"""PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.values.names import check_path_segment
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, field, shown
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Enum, Errors, Rules, UpdateRules
from kubewright.controlplane.kinds.validation.formats import CONDITIONS, at_most_100_percent, int_or_percent
from kubewright.schema import field_errors as fe


def _exclusive_amounts(spec: Object, path: str) -> Errors:
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is None or high is None:
        return []
    value = fe.GoStruct(
        MinAvailable=low,
        Selector=spec.get("selector"),
        MaxUnavailable=high,
        UnhealthyPodEvictionPolicy=spec.get("unhealthyPodEvictionPolicy"),
    )
    return [fe.invalid(path, value, "minAvailable and maxUnavailable cannot be both set")]


RULES = Rules(
    {
        "spec": _exclusive_amounts,
        "spec.minAvailable": [int_or_percent, at_most_100_percent],
        "spec.maxUnavailable": [int_or_percent, at_most_100_percent],
        "spec.selector": selector_errors,
        "spec.unhealthyPodEvictionPolicy": Enum("AlwaysAllow", "IfHealthyBudget"),
    }
)
STATUS_RULES = Rules(
    {
        "status.conditions": CONDITIONS,
        "status.disruptionsAllowed": NOT_NEGATIVE,
        "status.currentHealthy": NOT_NEGATIVE,
        "status.desiredHealthy": NOT_NEGATIVE,
        "status.expectedPods": NOT_NEGATIVE,
    }
)


def _amount(path: str) -> Callable[[Object], str]:
    return lambda obj: str(field(obj, path, "N/A"))


KINDS = {
    "poddisruptionbudgets": Kind(
        validate=RULES,
        validate_status=UpdateRules(STATUS_RULES),
        validate_name=check_path_segment,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        rechecks_metadata=False,
        any_finalizer=True,
        columns=(
            column("Min Available", _amount("spec.minAvailable"), description="Minimum of available pods."),
            column(
                "Max Unavailable", _amount("spec.maxUnavailable"), description="Maximum of unavailable pods."
            ),
            column(
                "Allowed Disruptions",
                shown("status.disruptionsAllowed", 0),
                type="integer",
                description="Allowed evictions.",
            ),
            AGE,
        ),
    ),
}
