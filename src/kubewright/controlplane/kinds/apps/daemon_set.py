"""Daemon sets."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.validation.formats import (
    Errors,
    amount,
    at_most_all,
    int_or_percent,
    non_negative,
)
from kubewright.controlplane.kinds.workload import WorkloadStrategy, collision_errors, shown_strategy
from kubewright.schema import field_errors as fe

_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(WorkloadStrategy):
    """Daemon sets."""

    annotation_of_whole = _TEMPLATE_GENERATION

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """As for other workloads, but what may not change is said first."""
        if op.subresource == "status":
            return self.status_errors(obj, old)
        return self.update_errors(obj, old) + self.spec_errors(obj["spec"])

    def default(self, version: Version, obj: Object) -> None:
        """As for other workloads; whoever writes a daemon set writes the count of its templates, too."""
        super().default(version, obj)
        obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "0")

    def default_spec(self, spec: Object) -> None:
        """One node at a time, ten revisions."""
        strategy: Object = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling: Object = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """The generation of the template is counted in an annotation."""
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations[_TEMPLATE_GENERATION] = "1"

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Count a changed template."""
        if op.subresource:
            return
        key = _TEMPLATE_GENERATION
        text = (old["metadata"].get("annotations") or {}).get(key) or "0"
        before = int(text) if text.isdigit() else 0
        changed = obj["spec"]["template"] != old["spec"]["template"]
        obj["metadata"].setdefault("annotations", {})[key] = str(before + 1 if changed else before)

    def spec_errors(self, spec: Object) -> Errors:
        """Selector and template, strategy, counts."""
        from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
        from kubewright.controlplane.kinds.core.podspec.template import (
            labels_of,
            matches,
            mismatch,
            running_for_ever_errors,
            template_errors,
        )

        selector, template = spec.get("selector"), spec["template"]
        errors = selector_errors(selector, "spec.selector")
        if not errors and not matches(selector, labels_of(template)):
            errors.append(mismatch(template, "spec.template"))
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(fe.invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        errors += template_errors(template, "spec.template")
        errors += running_for_ever_errors(template, "spec.template", "DaemonSet")
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        errors += _daemon_strategy_errors(spec["updateStrategy"], "spec.updateStrategy")
        return errors + non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that are counts."""
        status = obj.get("status") or {}
        errors = [error for field in _COUNTS for error in non_negative(status.get(field), f"status.{field}")]
        return errors + collision_errors(obj, old)


def _daemon_strategy_errors(strategy: Object, path: str) -> Errors:
    if strategy.get("type") == "OnDelete":
        return []
    if strategy.get("type") != "RollingUpdate":
        return [fe.not_supported(path, shown_strategy(strategy), ("RollingUpdate", "OnDelete"))]
    path = f"{path}.rollingUpdate"
    rolling = strategy.get("rollingUpdate") or {}
    errors: Errors = []
    for check in (int_or_percent, at_most_all):
        for field in ("maxUnavailable", "maxSurge"):
            errors += check(rolling.get(field), f"{path}.{field}")
    unavailable, surge = amount(rolling.get("maxUnavailable")), amount(rolling.get("maxSurge"))
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(fe.invalid(f"{path}.maxSurge", rolling.get("maxSurge"), text))
    elif not unavailable and not surge:
        errors.append(fe.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors
