"""Pods: how they are created, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.apiserver.objects import Object, deep_copy
from kubewright.apiserver.resource import Version
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.core.podspec.app_armor import take_over_annotations
from kubewright.controlplane.kinds.core.podspec.defaults import default_pod
from kubewright.controlplane.kinds.core.podspec.resources import default_whole_requests, quality_of_service
from kubewright.controlplane.kinds.kind import KindStrategy

_ENDINGS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class PodStrategy(KindStrategy):
    """The rules of pods."""

    graceful = True

    def default(self, version: Version, obj: Object) -> None:
        """Fill a pod in."""
        default_pod(obj)

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """A new pod is pending; its class of service follows from its resources."""
        obj["status"] = {"phase": "Pending"}
        if obj["spec"].get("schedulingGates"):
            from .updates import set_pod_condition

            text = "Scheduling is blocked due to non-empty scheduling gates"
            set_pod_condition(obj, "PodScheduled", "False", "SchedulingGated", text)
        for text in take_over_annotations(obj):
            op.warn(text)
        _merge_label_keys(obj)
        default_whole_requests(obj["spec"])
        obj["status"]["qosClass"] = quality_of_service(obj["spec"])

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Each endpoint changes its own part of a pod."""
        if not op.subresource:
            return
        from . import updates as pod_updates

        if op.subresource == "status":
            pod_updates.keep_all_but_status(obj, old)
        elif op.subresource == "ephemeralcontainers":
            pod_updates.keep_all_but_ephemeral(obj, old)
        elif op.subresource == "resize":
            pod_updates.keep_all_but_resources(obj, old)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Through `status` nobody owns what ties a pod to others."""
        if subresource == "status":
            return ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")
        return ("status",)

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError]:
        """A new pod."""
        from kubewright.controlplane.kinds.core.podspec.validation import new_pod_errors

        return new_pod_errors(obj)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Iterable[FieldError]:
        """A changed pod."""
        from . import updates as pod_updates

        if op.subresource == "status":
            return pod_updates.pod_status_errors(obj, old)
        if op.subresource == "ephemeralcontainers":
            return pod_updates.ephemeral_errors(obj, old)
        if op.subresource == "resize":
            return pod_updates.resize_errors(obj, old)
        return pod_updates.pod_update_errors(obj, old)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """What is unwise about a new pod."""
        if op.subresource or old is not None:
            return
        from kubewright.controlplane.kinds.core.podspec.warnings import pod_name_warnings, pod_warnings

        yield from pod_name_warnings(obj)
        yield from pod_warnings(obj)

    def row_conditions(self, obj: Object) -> list[Object]:
        """A pod that has ended will not change any more."""
        phase = (obj.get("status") or {}).get("phase") or ""
        message = _ENDINGS.get(phase)
        if message is None:
            return []
        return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]

    def grace_period(self, op: Operation, obj: Object, requested: int | None) -> int:
        """As asked for, or as the pod says; none for pods that do not run."""
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        period = spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
        return max(int(period), 0) if period >= 0 else 1


def _merge_label_keys(pod: Object) -> None:
    """Turn `matchLabelKeys` of spreading and affinity into terms of their selectors."""
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
