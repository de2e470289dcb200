"""Deployments and replica sets."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resource import Object, Operation
from kubewright.schema import field_errors as fe

from .podspec.names_and_numbers import (
    Errors,
    amount,
    at_most_all,
    int_or_percent,
    non_negative,
)
from .workloads import WorkloadStrategy, collision_errors, count_errors, shown_strategy


class DeploymentStrategy(WorkloadStrategy):
    """Deployments."""

    recommends_labels = True

    def default_spec(self, spec: Object) -> None:
        """One replica, a quarter at a time, ten revisions, ten minutes."""
        spec.setdefault("replicas", 1)
        strategy: Object = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling: Object = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Labels are not changed through `status`."""
        if op.subresource == "status":
            if "labels" in old["metadata"]:
                obj["metadata"]["labels"] = old["metadata"]["labels"]
            else:
                obj["metadata"].pop("labels", None)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Nor does anybody own labels through `status`."""
        return ("spec", "metadata.labels") if subresource == "status" else ("status",)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """New annotations count too: they are copied to replica sets."""
        return bool(
            obj["spec"] != old["spec"]
            or (obj["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
        )

    def spec_errors(self, spec: Object) -> Errors:
        """Replicas, selector and template, strategy, deadlines."""
        from .podspec.template import selected_template_errors

        errors = non_negative(spec.get("replicas"), "spec.replicas")
        errors += selected_template_errors(
            spec.get("selector"),
            spec["template"],
            "spec",
            noun="deployment",
            always="ReplicaSet",
            unusable="invalid label selector",
        )
        errors += _deployment_strategy_errors(spec["strategy"], "spec.strategy")
        ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds")
        errors += non_negative(ready, "spec.minReadySeconds")
        errors += non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
        if deadline is not None:
            errors += non_negative(deadline, "spec.progressDeadlineSeconds")
            if deadline <= ready:
                text = "must be greater than minReadySeconds"
                errors.append(fe.invalid("spec.progressDeadlineSeconds", deadline, text))
        return errors

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that fit together."""
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        fields = (*counts, "unavailableReplicas", "terminatingReplicas")
        errors = count_errors(obj.get("status") or {}, fields, counts, "readyReplicas")
        return errors + collision_errors(obj, old)


def _deployment_strategy_errors(strategy: Object, path: str) -> Errors:
    rolling: Any = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [fe.forbidden(f"{path}.rollingUpdate", text)]
    if strategy.get("type") != "RollingUpdate":
        return [fe.not_supported(path, shown_strategy(strategy), ("Recreate", "RollingUpdate"))]
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    if not amount(unavailable) and not amount(surge):
        text = "may not be 0 when `maxSurge` is 0"
        errors.append(fe.invalid(f"{path}.maxUnavailable", unavailable, text))
    return errors + at_most_all(unavailable, f"{path}.maxUnavailable")


class ReplicaSetStrategy(WorkloadStrategy):
    """Replica sets."""

    recommends_labels = True

    def default_spec(self, spec: Object) -> None:
        """One replica."""
        spec.setdefault("replicas", 1)

    def spec_errors(self, spec: Object) -> Errors:
        """Replicas, selector and template."""
        from .podspec.template import selected_template_errors

        errors = non_negative(spec.get("replicas"), "spec.replicas")
        errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
        return errors + selected_template_errors(
            spec.get("selector"),
            spec["template"],
            "spec",
            noun="deployment",
            always="ReplicaSet",
            unusable="invalid label selector",
        )

    def status_errors(self, obj: Object, old: Object) -> Errors:
        """Counts that fit together."""
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return count_errors(
            obj.get("status") or {}, (*counts, "terminatingReplicas"), counts, "readyReplicas"
        )
