"""ReplicaSet."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.objects import Object
from kubewright.controlplane.kinds.kind import STATUS, Kind
from kubewright.controlplane.kinds.printing import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    age_of,
    column,
    container_cells,
    label_selector_text,
    name_of,
)
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Rules, UpdateRules
from kubewright.controlplane.kinds.workload import (
    immutable_label_selector,
    replica_status_rules,
    scale_subresource,
    selected_template,
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


def _cells(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj),
        *container_cells(spec.get("template")),
        label_selector_text(spec.get("selector")),
    ]


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
            NAME,
            column("Desired", description="Number of desired pods.", type="integer"),
            column("Current", description="Number of existing pods.", type="integer"),
            column("Ready", description="Number of ready pods.", type="integer"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", description="Label selector of the pods.", wide=True),
        ),
        cells=_cells,
        subresources={"status": STATUS, "scale": scale_subresource()},
    )
}
