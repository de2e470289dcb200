"""Strategy of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.resource import Version
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.defaults import default_pod
from kubewright.controlplane.kinds.core.podspec.resources import default_pod_requests, qos_class
from kubewright.controlplane.kinds.core.podspec.security import copy_app_armor_profiles
from kubewright.controlplane.kinds.kind import KindStrategy

_ENDINGS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class PodStrategy(KindStrategy):
    """Strategy of pods: initial status, QoS class, subresources, graceful deletion."""

    graceful = True

    def default(self, version: Version, obj: Object) -> None:
        """Apply the defaults of a pod."""
        default_pod(obj)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the initial status, including the QoS class."""
        obj["status"] = {"phase": "Pending"}
        if obj["spec"].get("schedulingGates"):
            from .updates import set_pod_condition

            text = "Scheduling is blocked due to non-empty scheduling gates"
            set_pod_condition(obj, "PodScheduled", "False", "SchedulingGated", text)
        for text in copy_app_armor_profiles(obj):
            op.warn(text)
        _merge_label_keys(obj)
        default_pod_requests(obj["spec"])
        obj["status"]["qosClass"] = qos_class(obj["spec"])

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Restore the fields that a subresource must not change."""
        if not op.subresource:
            return
        from . import updates as pod_updates

        if op.subresource == "status":
            pod_updates.restore_all_but_status(obj, old)
        elif op.subresource == "ephemeralcontainers":
            pod_updates.restore_all_but_ephemeral(obj, old)
        elif op.subresource == "resize":
            pod_updates.restore_all_but_resources(obj, old)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that an endpoint ignores."""
        if subresource == "status":
            return ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")
        return ("status",)

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """Validate a new pod."""
        from kubewright.controlplane.kinds.core.podspec.validation import new_pod_errors

        return new_pod_errors(obj)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """Validate an update of a pod or of one of its parts."""
        from . import updates as pod_updates

        if op.subresource == "status":
            return pod_updates.pod_status_errors(obj, old)
        if op.subresource == "ephemeralcontainers":
            return pod_updates.ephemeral_errors(obj, old)
        if op.subresource == "resize":
            return pod_updates.resize_errors(obj, old)
        return pod_updates.pod_update_errors(obj, old)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Return the warnings about a new pod."""
        if op.subresource or old is not None:
            return
        from kubewright.controlplane.kinds.core.podspec.warnings import pod_name_warnings, pod_warnings

        yield from pod_name_warnings(obj)
        yield from pod_warnings(obj)

    def row_conditions(self, obj: Object) -> list[Object]:
        """Mark the table rows of completed pods."""
        phase = (obj.get("status") or {}).get("phase") or ""
        message = _ENDINGS.get(phase)
        if message is None:
            return []
        return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]

    def grace_period(self, op: Operation, obj: Object, requested: int | None) -> int:
        """Return the requested period or that of the pod; 0 if it is not running."""
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        period = spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
        return max(int(period), 0) if period >= 0 else 1


def _merge_label_keys(pod: Object) -> None:
    """Add `matchLabelKeys` of spread constraints and affinity terms to their selectors."""
    labels = pod["metadata"].get("labels") or {}
    spec: Object = pod["spec"]
    for constraint in spec.get("topologySpreadConstraints") or ():
        _add_terms(constraint, labels, "matchLabelKeys", "In")
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity: Object = (spec.get("affinity") or {}).get(kind) or {}
        terms: list[Any] = list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [
            one.get("podAffinityTerm") or {}
            for one in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
        for term in terms:
            _add_terms(term, labels, "matchLabelKeys", "In")
            _add_terms(term, labels, "mismatchLabelKeys", "NotIn")


def _add_terms(holder: Object, labels: Object, field: str, operator: str) -> None:
    selector = holder.get("labelSelector")
    if selector is None:
        return
    for key in holder.get(field) or ():
        if key in labels:
            term = {"key": key, "operator": operator, "values": [labels[key]]}
            expressions = selector.setdefault("matchExpressions", [])
            if term not in expressions:
                expressions.append(deep_copy(term))


def _host_network(pod: Object) -> str:
    return "true" if (pod.get("spec") or {}).get("hostNetwork") else "false"


def _first_address(pod: Object) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or [{}]
    return addresses[0].get("ip") or ""


FIELD_SELECTORS: dict[str, str | Callable[[Object], str]] = {
    "spec.nodeName": ".spec.nodeName",
    "spec.host": ".spec.nodeName",
    "spec.restartPolicy": ".spec.restartPolicy",
    "spec.schedulerName": ".spec.schedulerName",
    "spec.serviceAccountName": ".spec.serviceAccountName",
    "spec.hostNetwork": _host_network,
    "status.phase": ".status.phase",
    "status.podIP": _first_address,
    "status.podIPs": _first_address,
    "status.nominatedNodeName": ".status.nominatedNodeName",
}
