"""DaemonSet."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, field, labels_text
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Errors, Rules, Switch, UpdateRules
from kubewright.controlplane.kinds.validation.formats import amount, at_most_100_percent, int_or_percent
from kubewright.controlplane.kinds.workload import (
    count_column,
    immutable_label_selector,
    not_decremented,
    selector_column,
    template_columns,
    template_warnings,
    update_strategy,
    workload_defaults,
)
from kubewright.schema import field_errors as fe

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(KindStrategy):
    """Counts changes of the template in an annotation."""

    table_hidden_annotation = _TEMPLATE_GENERATION

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Start with template generation 1."""
        obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Increment the template generation if the template has changed."""
        if op.subresource:
            return
        text = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "0"
        generation = int(text) if text.isdigit() else 0
        if obj["spec"]["template"] != old["spec"]["template"]:
            generation += 1
        obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(generation)


def _default_spec(spec: Object) -> None:
    strategy: Object = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling: Object = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


_apply_defaults = workload_defaults(_default_spec)


def _default(obj: Object) -> None:
    _apply_defaults(obj)
    obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "0")


def _check_selector_and_template(spec: Object, path: str) -> Errors:
    from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
    from kubewright.controlplane.kinds.core.podspec.template import (
        labels_of,
        long_running_errors,
        matches,
        selector_mismatch,
        template_errors,
    )

    selector, template, template_path = spec.get("selector"), spec["template"], f"{path}.template"
    errors = selector_errors(selector, f"{path}.selector")
    if not errors and not matches(selector, labels_of(template)):
        errors.append(selector_mismatch(template, template_path))
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(fe.invalid(f"{path}.selector", selector, "empty selector is invalid for daemonset"))
    errors += template_errors(template, template_path)
    return errors + long_running_errors(template, template_path, "DaemonSet")


def _check_progress(rolling: Object, path: str) -> Errors:
    unavailable, surge = amount(rolling.get("maxUnavailable")), amount(rolling.get("maxSurge"))
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        return [fe.invalid(f"{path}.maxSurge", rolling.get("maxSurge"), text)]
    if unavailable or surge:
        return []
    return [fe.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")]


_ROLLING_UPDATE = [
    {"maxUnavailable": int_or_percent, "maxSurge": int_or_percent},
    {"maxUnavailable": at_most_100_percent, "maxSurge": at_most_100_percent},
    _check_progress,
]
RULES = Rules(
    {
        "spec": [
            _check_selector_and_template,
            {
                "minReadySeconds": NOT_NEGATIVE,
                "updateStrategy": [
                    update_strategy("RollingUpdate", "OnDelete"),
                    Switch("type", {"RollingUpdate": {"rollingUpdate": _ROLLING_UPDATE}}),
                ],
                "revisionHistoryLimit": NOT_NEGATIVE,
            },
        ]
    }
)
STATUS_RULES = Rules(
    {
        "status.currentNumberScheduled": NOT_NEGATIVE,
        "status.numberMisscheduled": NOT_NEGATIVE,
        "status.desiredNumberScheduled": NOT_NEGATIVE,
        "status.numberReady": NOT_NEGATIVE,
        "status.observedGeneration": NOT_NEGATIVE,
        "status.updatedNumberScheduled": NOT_NEGATIVE,
        "status.numberAvailable": NOT_NEGATIVE,
        "status.numberUnavailable": NOT_NEGATIVE,
        "status.collisionCount": NOT_NEGATIVE,
    }
)


def _node_selector(obj: Object) -> str:
    return labels_text(field(obj, "spec.template.spec.nodeSelector"))


KINDS = {
    "daemonsets": Kind(
        strategy=DaemonSetStrategy,
        default=_default,
        validate=RULES,
        validate_update=UpdateRules({"spec.selector": immutable_label_selector}, RULES),
        validate_status=UpdateRules(STATUS_RULES, {"status.collisionCount": not_decremented}),
        warnings=template_warnings(),
        generation_fields=("spec",),
        columns=(
            count_column("Desired", "status.desiredNumberScheduled", "Nodes that should run the pod."),
            count_column("Current", "status.currentNumberScheduled", "Nodes that run at least one pod."),
            count_column("Ready", "status.numberReady", "Nodes with a ready pod."),
            count_column("Up-to-date", "status.updatedNumberScheduled", "Nodes with a current pod."),
            count_column("Available", "status.numberAvailable", "Nodes with an available pod."),
            column("Node Selector", _node_selector, description="Labels that nodes must have."),
            AGE,
            *template_columns(),
            selector_column(),
        ),
        subresources={"status": STATUS},
    ),
}
