"""Which changes disrupt what runs: pods that restart, volumes and addresses that disappear.

`disruption_of` judges one change of an object by the fields that differ; what it returns is the reason that
reports show. The rules are those of the controllers of Kubernetes: another pod template restarts the pods of
a workload, another selector or port of a Service changes where its traffic goes, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .model import PlannedChange

Object = Mapping[str, Any]

_TEMPLATE: Final = ".spec.template."
_RESTART: Final = frozenset((("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet")))
_TRAFFIC: Final = (
    ".spec.selector",
    ".spec.ports",
    ".spec.type",
    ".spec.clusterIP",
    ".spec.externalName",
    ".spec.externalIPs",
    ".spec.loadBalancerIP",
    ".spec.loadBalancerClass",
)
_DELETED: Final = {
    ("", "Namespace"): "deletes all of its objects",
    ("", "PersistentVolumeClaim"): "deletes a volume and its data",
    ("", "PersistentVolume"): "deletes a volume and its data",
    ("", "Service"): "removes an address",
    ("", "Secret"): "deletes a Secret",
    ("networking.k8s.io", "Ingress"): "removes a route",
    ("gateway.networking.k8s.io", "HTTPRoute"): "removes a route",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "deletes all objects of the kind",
}


def disruption_of(change: PlannedChange, before: Object | None, custom_groups: Sequence[str] = ()) -> str:
    """Return what a change disrupts; an empty string if nothing.

    `before` is the object before the change, `custom_groups` are the groups of CRDs.
    """
    if before is None:
        return ""
    kind = (change.name.group, change.name.kind)
    if change.verb in ("delete", "recreate"):
        return _deletion(kind, before, change.verb, change.name.group in custom_groups)
    rule = _RULES.get(kind)
    return rule(change, before) if rule is not None else ""


def _deletion(kind: tuple[str, str], before: Object, verb: str, is_custom: bool) -> str:
    if kind in _DELETED:
        return _DELETED[kind] if verb == "delete" else _DELETED[kind].replace("deletes", "recreates", 1)
    spec, status = before.get("spec") or {}, before.get("status") or {}
    if kind == ("batch", "Job"):
        active = status.get("active") or 0
        if not active:
            return ""  # a finished Job
        return f"{'restarts' if verb == 'recreate' else 'stops'} a running Job ({_pods(active)})"
    if kind == ("", "Pod"):
        return "restarts the pod" if verb == "recreate" else "stops the pod"
    if kind in _RESTART or kind == ("apps", "ReplicaSet"):
        count = status.get("replicas", status.get("currentNumberScheduled", spec.get("replicas", 1)))
        if not count:
            return ""
        return f"{'restarts' if verb == 'recreate' else 'stops'} {_pods(count)}"
    return f"{verb}s a custom resource" if is_custom else ""


def _workload(change: PlannedChange, before: Object) -> str:
    spec, status = before.get("spec") or {}, before.get("status") or {}
    count = status.get("replicas", status.get("currentNumberScheduled", spec.get("replicas", 1))) or 0
    strategy = (spec.get("strategy") or spec.get("updateStrategy") or {}).get("type")
    if any(f"{each.path}.".startswith(_TEMPLATE) for each in change.fields) and strategy != "OnDelete":
        if not count:
            return ""
        return f"restarts {_pods(count)}{', all at the same time' if strategy == 'Recreate' else ''}"
    for each in change.fields:
        if each.path == ".spec.replicas" and isinstance(each.after, int):
            fewer = (each.before if isinstance(each.before, int) else 1) - each.after
            return f"stops {_pods(fewer)}" if fewer > 0 else ""
    return ""


def _service(change: PlannedChange, before: Object) -> str:
    parts = sorted({name for each in change.fields for name in _TRAFFIC if each.path.startswith(name)})
    return f"changes its {', '.join(part.removeprefix('.spec.') for part in parts)}" if parts else ""


def _job(change: PlannedChange, before: Object) -> str:
    suspended = any(each.path == ".spec.suspend" and each.after is True for each in change.fields)
    active = (before.get("status") or {}).get("active") or 0
    return f"stops a running Job ({_pods(active)})" if suspended and active else ""


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count != 1 else ''}"


_RULES: Final[dict[tuple[str, str], Callable[[PlannedChange, Object], str]]] = {
    **dict.fromkeys(_RESTART, _workload),
    ("", "Service"): _service,
    ("batch", "Job"): _job,
}
