"""RuntimeClass."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.core.podspec.resources import requirement_errors
from kubewright.controlplane.kinds.core.podspec.scheduling import toleration_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    Errors,
    Immutable,
    Required,
    Rules,
    UpdateRules,
)
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""Deprecated labels of nodes, with the text of the warning."""
_TOLERATION_KEY = ("key", "operator", "value", "effect")


def _overhead_errors(overhead: Object, path: str) -> Errors:
    return requirement_errors({"limits": overhead}, set(), "overhead") if overhead else []


def _duplicate_tolerations(tolerations: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name) or "" for name in _TOLERATION_KEY)
        if key in seen:
            value = fe.GoStruct((name.title(), toleration.get(name) or "") for name in _TOLERATION_KEY)
            value["TolerationSeconds"] = toleration.get("tolerationSeconds")
            errors.append(fe.duplicate(f"{path}[{index}]", value))
        seen.add(key)
    return errors


RULES = Rules(
    {
        "handler": [Required(), DNS_LABEL],
        "overhead.podFixed": _overhead_errors,
        "scheduling.nodeSelector": label_errors,
        "scheduling.tolerations": [toleration_errors, _duplicate_tolerations],
    }
)


def _warnings(obj: Object, old: Object | None) -> Iterable[str]:
    for key in (obj.get("scheduling") or {}).get("nodeSelector") or ():
        if key in DEPRECATED_NODE_LABELS:
            yield f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}"


KINDS = {
    "runtimeclasses": Kind(
        validate=RULES,
        validate_update=UpdateRules(RULES, {"handler": Immutable()}),
        warnings=_warnings,
        allow_create_on_update=True,
        allow_unconditional_update=False,
        checks_whole_on_update=True,
        any_finalizer=True,
        columns=(
            column("Handler", shown("handler"), description="CRI handler that runs the containers."),
            AGE,
        ),
    ),
}
