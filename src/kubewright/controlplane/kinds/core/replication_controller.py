"""ReplicationController."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import STATUS, Kind, KindStrategy, check_complete_name
from kubewright.controlplane.kinds.printing import (
    AGE,
    column,
    field,
    labels_text,
)
from kubewright.controlplane.kinds.validation import NOT_NEGATIVE, Errors, Required, Rules
from kubewright.controlplane.kinds.workload import (
    count_column,
    replica_status_rules,
    scale_subresource,
    template_columns,
    template_warnings,
)

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
            count_column("Desired", "spec.replicas", "Number of desired pods."),
            count_column("Current", "status.replicas", "Number of existing pods."),
            count_column("Ready", "status.readyReplicas", "Number of ready pods."),
            AGE,
            *template_columns(),
            column(
                "Selector",
                lambda obj: labels_text(field(obj, "spec.selector")),
                description="Labels of the pods.",
                wide=True,
            ),
        ),
        field_selectors={"status.replicas": _replicas},
        subresources={"status": STATUS, "scale": scale_subresource(plain_selector=True)},
        display_prefix="controllers",
    )
}
