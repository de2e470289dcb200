"""Runtime classes: `node.k8s.io`. The handler never changes."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.names import check_dns_label
from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.core.podspec.resources import requirement_errors
from kubewright.controlplane.kinds.core.podspec.scheduling import toleration_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, column, shown
from kubewright.controlplane.kinds.validation.formats import Errors, immutable, named
from kubewright.schema import field_errors as fe
from kubewright.schema.validation.metadata import label_errors

DEPRECATED_LABELS = {
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
"""Labels of nodes that have been replaced by others, and what to say about them."""


def _errors(runtime: Object) -> Errors:
    handler = runtime.get("handler") or ""
    errors = named(check_dns_label, handler, "handler") if handler else [fe.required("handler", "")]
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if overhead:
        errors += requirement_errors({"limits": overhead}, set(), "overhead")
    scheduling = runtime.get("scheduling") or {}
    errors += label_errors(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    errors += toleration_errors(tolerations, "scheduling.tolerations")
    seen = set()
    for position, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.append(fe.duplicate(f"scheduling.tolerations[{position}]", _shown(toleration)))
        seen.add(key)
    return errors


def _shown(toleration: Object) -> Object:
    return fe.GoStruct(
        Key=toleration.get("key") or "",
        Operator=toleration.get("operator") or "",
        Value=toleration.get("value") or "",
        Effect=toleration.get("effect") or "",
        TolerationSeconds=toleration.get("tolerationSeconds"),
    )


def _warnings(runtime: Object, old: Object | None) -> Iterable[str]:
    for key in (runtime.get("scheduling") or {}).get("nodeSelector") or ():
        if key in DEPRECATED_LABELS:
            yield f"scheduling.nodeSelector: {DEPRECATED_LABELS[key]}"


KINDS = {
    "runtimeclasses": Kind(
        validate=_errors,
        validate_update=lambda new, old: immutable(new.get("handler"), old.get("handler"), "handler"),
        warnings=_warnings,
        allow_create_on_update=True,
        allow_unconditional_update=False,
        columns=(
            column("Handler", shown("handler"), description="What runs the containers of such pods."),
            AGE,
        ),
        checks_whole_on_update=True,
        any_finalizer=True,
    ),
}
