"""ReplicationController."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy, check_complete_name
from kubewright.controlplane.kinds.printing import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    age_of,
    column,
    container_cells,
    labels_text,
    name_of,
)
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Errors, Required, Rules
from kubewright.controlplane.kinds.workload import replica_status_rules, scale_subresource, template_warnings

from .podspec.defaults import default_template
from .podspec.template import labels_of, long_running_errors, selector_mismatch, template_errors


class ReplicationControllerStrategy(KindStrategy):
    """Replication controllers: deletion orphans their pods by default."""

    default_propagation = "Orphan"


def _default(obj: Object) -> None:
    """Copy the labels of the template to the selector and to the object."""
    spec: Object = obj.setdefault("spec", {})
    template = spec.get("template")
    default_template(template)
    labels = ((template or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    if not spec.get("minReadySeconds"):
        spec.pop("minReadySeconds", None)


def _check_template(spec: Object, path: str) -> Errors:
    template, path = spec.get("template"), f"{path}.template"
    if template is None:
        return []
    labels = labels_of(template)
    errors: Errors = []
    if any(labels.get(key) != value for key, value in (spec.get("selector") or {}).items()):
        errors.append(selector_mismatch(template, path))
    errors += template_errors(template, path)
    return errors + long_running_errors(template, path, "ReplicationController")


def _cells(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj),
        *container_cells(spec.get("template")),
        labels_text(spec.get("selector")),
    ]


def _replicas(obj: Object) -> str:
    return str((obj.get("status") or {}).get("replicas") or 0)


RULES = Rules(
    {
        "spec": [
            {
                "minReadySeconds": NOT_NEGATIVE,
                "selector": Required(),
                "replicas": NOT_NEGATIVE,
                "template": Required(pointer=True),
            },
            _check_template,
        ]
    }
)
KINDS = {
    "replicationcontrollers": Kind(
        strategy=ReplicationControllerStrategy,
        default=_default,
        validate=RULES,
        validate_status=replica_status_rules("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        warnings=template_warnings(host_names=True),
        validate_name=check_complete_name,
        generation_fields=("spec",),
        columns=(
            NAME,
            column("Desired", description="Number of desired pods.", type="integer"),
            column("Current", description="Number of existing pods.", type="integer"),
            column("Ready", description="Number of ready pods.", type="integer"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", description="Labels of the pods.", wide=True),
        ),
        cells=_cells,
        field_selectors={"status.replicas": _replicas},
        subresources={"status": STATUS, "scale": scale_subresource(plain_selector=True)},
        display_prefix="controllers",
    )
}
