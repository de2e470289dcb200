"""ReplicaSet."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import STATUS, Kind
from kubewright.controlplane.kinds.printing import AGE
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Rules, UpdateRules
from kubewright.controlplane.kinds.workload import (
    count_column,
    immutable_label_selector,
    replica_status_rules,
    scale_subresource,
    selected_template,
    selector_column,
    template_columns,
    template_warnings,
    workload_defaults,
)

RULES = Rules(
    {
        "spec": [
            {"replicas": NOT_NEGATIVE, "minReadySeconds": NOT_NEGATIVE},
            selected_template(noun="deployment", owner="ReplicaSet", unusable="invalid label selector"),
        ]
    }
)


def _default_spec(spec: Object) -> None:
    spec.setdefault("replicas", 1)


KINDS = {
    "replicasets": Kind(
        default=workload_defaults(_default_spec),
        validate=RULES,
        validate_update=UpdateRules(RULES, {"spec.selector": immutable_label_selector}),
        validate_status=replica_status_rules(
            "fullyLabeledReplicas", "readyReplicas", "availableReplicas", unbounded=("terminatingReplicas",)
        ),
        warnings=template_warnings(host_names=True),
        generation_fields=("spec",),
        columns=(
            count_column("Desired", "spec.replicas", "Number of desired pods."),
            count_column("Current", "status.replicas", "Number of existing pods."),
            count_column("Ready", "status.readyReplicas", "Number of ready pods."),
            AGE,
            *template_columns(),
            selector_column(),
        ),
        subresources={"status": STATUS, "scale": scale_subresource()},
    )
}
