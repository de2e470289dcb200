"""Deployment."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, column, selector_text
from kubewright.controlplane.kinds.validation import (
    NOT_NEGATIVE,
    Errors,
    Forbidden,
    Rules,
    Switch,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import amount, at_most_100_percent, int_or_percent
from kubewright.controlplane.kinds.workload import (
    count_column,
    immutable_label_selector,
    ready_replicas,
    replica_status_rules,
    scale_subresource,
    selected_template,
    selector_column,
    template_columns,
    template_warnings,
    update_strategy,
    workload_defaults,
)
from kubewright.schema import field_errors as fe


class DeploymentStrategy(KindStrategy):
    """Deployments: annotations count for the generation, `status` does not change labels."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Restore the labels in an update of the status."""
        if op.subresource == "status":
            if "labels" in old["metadata"]:
                obj["metadata"]["labels"] = old["metadata"]["labels"]
            else:
                obj["metadata"].pop("labels", None)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that an endpoint ignores."""
        return ("spec", "metadata.labels") if subresource == "status" else ("status",)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Compare annotations too: the controller copies them to replica sets."""
        return bool(
            obj["spec"] != old["spec"]
            or (obj["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
        )


def _default_spec(spec: Object) -> None:
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


def _check_progress(rolling: Object, path: str) -> Errors:
    if amount(rolling.get("maxUnavailable")) or amount(rolling.get("maxSurge")):
        return []
    text = "may not be 0 when `maxSurge` is 0"
    return [fe.invalid(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), text)]


def _check_deadline(spec: Object, path: str) -> Errors:
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is None or deadline > (spec.get("minReadySeconds") or 0):
        return []
    return [fe.invalid(f"{path}.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")]


RULES = Rules(
    {
        "spec": [
            {"replicas": NOT_NEGATIVE},
            selected_template(noun="deployment", owner="ReplicaSet", unusable="invalid label selector"),
            {
                "strategy": [
                    update_strategy("Recreate", "RollingUpdate"),
                    Switch(
                        "type",
                        {
                            "Recreate": {
                                "rollingUpdate": Forbidden(
                                    "may not be specified when strategy `type` is 'Recreate'"
                                )
                            },
                            "RollingUpdate": {
                                "rollingUpdate": [
                                    {"maxUnavailable": int_or_percent, "maxSurge": int_or_percent},
                                    _check_progress,
                                    {"maxUnavailable": at_most_100_percent},
                                ]
                            },
                        },
                    ),
                ],
                "minReadySeconds": NOT_NEGATIVE,
                "revisionHistoryLimit": NOT_NEGATIVE,
                "progressDeadlineSeconds": NOT_NEGATIVE,
            },
            _check_deadline,
        ],
    }
)


KINDS = {
    "deployments": Kind(
        strategy=DeploymentStrategy,
        default=workload_defaults(_default_spec),
        validate=RULES,
        validate_update=UpdateRules(RULES, {"spec.selector": immutable_label_selector}),
        validate_status=replica_status_rules(
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            unbounded=("unavailableReplicas", "terminatingReplicas"),
        ),
        warnings=template_warnings(host_names=True),
        generation_fields=("spec",),
        columns=(
            column("Ready", ready_replicas, description="Number of the pod with ready state"),
            count_column(
                "Up-to-date",
                "status.updatedReplicas",
                "Number of pods with the current template.",
                type="string",
            ),
            count_column("Available", "status.availableReplicas", "Number of available pods.", type="string"),
            AGE,
            *template_columns(),
            selector_column(format_selector=selector_text),
        ),
        subresources={"status": STATUS, "scale": scale_subresource()},
    )
}
