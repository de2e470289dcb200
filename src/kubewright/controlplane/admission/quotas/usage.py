"""Quota usage of objects.

`usage(resource, obj)` returns the usage of one object by quota resource name: `pods`, `requests.cpu`,
`count/deployments.apps`, `gold.storageclass.storage.k8s.io/requests.storage`. `in_scope` returns whether the
scopes of a quota match an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.api.gvk import GroupResource
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import parse_time
from kubewright.apiserver.resources.objects import Object

Amounts = dict[str, Quantity]

ONE = Quantity(1)
COUNTED_BY_NAME = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    )
)
"""Core resources with a quota name besides `count/...`."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_CLASS = ".storageclass.storage.k8s.io/"


def quantities(values: Mapping[str, Any] | None) -> Amounts:
    """Parse quantities."""
    return {name: Quantity(value) for name, value in (values or {}).items()}


def add(into: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add quantities by name."""
    for name, amount in more.items():
        known = into.get(name)
        into[name] = amount if known is None else known.add(amount)


def _largest(into: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in into or into[name] < amount:
            into[name] = amount


def _pod_amounts(spec: Object, field: str) -> Amounts:
    """Return the resources of all containers: sum of concurrent ones, maximum with init containers."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, quantities((container.get("resources") or {}).get(field)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = quantities((container.get("resources") or {}).get(field))
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
            _largest(peak, sidecars)
        else:
            at_once = dict(amounts)
            add(at_once, sidecars)
            _largest(peak, at_once)
    _largest(total, peak)
    pod_level = quantities((spec.get("resources") or {}).get(field))
    total.update({name: amount for name, amount in pod_level.items() if _pod_level(name)})
    overhead = quantities(spec.get("overhead"))
    if field == "requests":
        add(total, overhead)
    else:
        add(total, {name: amount for name, amount in overhead.items() if name in total})
    return total


def _pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def pod_requests(spec: Object) -> Amounts:
    """Return the requests of a pod."""
    return _pod_amounts(spec, "requests")


def pod_limits(spec: Object) -> Amounts:
    """Return the limits of a pod."""
    return _pod_amounts(spec, "limits")


def usage(resource: GroupResource, obj: Object) -> Amounts:
    """Return the usage of an object."""
    counted: Amounts = {f"count/{resource}": ONE}
    if resource.group:
        return counted
    plural, spec = resource.resource, obj.get("spec") or {}
    if plural == "pods":
        if not is_over(obj):
            counted["pods"] = ONE
            counted.update(compute(pod_requests(spec), pod_limits(spec)))
        return counted
    if plural in COUNTED_BY_NAME:
        counted[plural] = ONE
    if plural == "services":
        counted.update(_service(spec))
    elif plural == "persistentvolumeclaims":
        counted.update(_claim(obj, spec))
    return counted


def compute(requests: Amounts, limits: Amounts) -> Amounts:
    """Return requests and limits by quota resource name."""
    counted: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            counted[name] = amount
            counted[f"requests.{name}"] = amount
        elif "/" in name:
            counted[f"requests.{name}"] = amount
    counted.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE})
    return counted


def is_over(pod: Object) -> bool:
    """Return whether a pod no longer uses resources."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return True
    metadata = pod.get("metadata") or {}
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not deleted or grace is None:
        return False
    return datetime.now(UTC) > parse_time(deleted) + timedelta(seconds=grace)


def _service(spec: Object) -> Amounts:
    ports = Quantity(len(spec.get("ports") or ()))
    match spec.get("type"):
        case "NodePort":
            return {"services.nodeports": ports}
        case "LoadBalancer":
            allocates = spec.get("allocateLoadBalancerNodePorts") is not False
            own = Quantity(sum(1 for port in spec.get("ports") or () if port.get("nodePort")))
            return {"services.loadbalancers": ONE, "services.nodeports": ports if allocates else own}
    return {}


def _claim(obj: Object, spec: Object) -> Amounts:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    name = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName") or ""
    counted: Amounts = {}
    if name:
        counted[f"{name}{_CLASS}persistentvolumeclaims"] = ONE
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if requested is not None:
        amount = Quantity(requested)
        allocated = ((obj.get("status") or {}).get("allocatedResources") or {}).get("storage")
        if allocated is not None:
            amount = max(amount, Quantity(allocated))
        counted["requests.storage"] = amount
        if name:
            counted[f"{name}{_CLASS}requests.storage"] = amount
    return counted


def concerns(resource: GroupResource, name: str) -> bool:
    """Return whether a quota resource name applies to this resource."""
    if name == f"count/{resource}":
        return True
    if resource.group:
        return False
    plural = resource.resource
    if plural == "pods":
        plain = name.removeprefix("requests.").removeprefix("limits.")
        return (
            name == "pods"
            or plain in _COMPUTE
            or plain.startswith("hugepages-")
            or (name.startswith("requests.") and "/" in plain)
        ) and not name.startswith("count/")
    if plural == "services":
        return name in ("services", "services.loadbalancers", "services.nodeports")
    if plural == "persistentvolumeclaims":
        return name in ("persistentvolumeclaims", "requests.storage") or _CLASS in name
    return plural in COUNTED_BY_NAME and name == plural


def missing_for(pod: Object, required: Iterable[str]) -> str:
    """Return which requests and limits are missing that a quota requires; empty if none are."""
    spec = pod.get("spec") or {}
    needed = {
        name
        for name in required
        if name.removeprefix("requests.").removeprefix("limits.") in ("cpu", "memory")
    }
    lacking: dict[str, list[str]] = {}
    pod_resources = compute(
        quantities((spec.get("resources") or {}).get("requests")),
        quantities((spec.get("resources") or {}).get("limits")),
    )
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        declared = compute(quantities(resources.get("requests")), quantities(resources.get("limits")))
        for name in needed - declared.keys() - pod_resources.keys():
            lacking.setdefault(name, []).append(container.get("name") or "")
    if not lacking:
        return ""
    return "must specify " + "; ".join(
        f"{name} for: {','.join(sorted(set(containers)))}" for name, containers in sorted(lacking.items())
    )


def in_scope(quota: Object, resource: GroupResource, obj: Object) -> bool:
    """Return whether the scopes of a quota match an object."""
    spec = quota.get("spec") or {}
    wanted = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    wanted += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_matches(each, resource, obj) for each in wanted)


def _matches(wanted: Object, resource: GroupResource, obj: Object) -> bool:
    spec = obj.get("spec") or {}
    scope = wanted.get("scopeName")
    if resource == GroupResource("", "persistentvolumeclaims"):
        return scope == "VolumeAttributesClass" and _selects(
            wanted, spec.get("volumeAttributesClassName") or ""
        )
    if resource != GroupResource("", "pods"):
        return False
    match scope:
        case "Terminating":
            return _terminating(obj)
        case "NotTerminating":
            return not _terminating(obj)
        case "BestEffort":
            return _best_effort(spec)
        case "NotBestEffort":
            return not _best_effort(spec)
        case "PriorityClass":
            return _selects(wanted, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(spec.get("affinity") or {})
    return False


def _selects(wanted: Object, value: str) -> bool:
    match wanted.get("operator"):
        case "In":
            return value in (wanted.get("values") or ())
        case "NotIn":
            return value not in (wanted.get("values") or ())
        case "DoesNotExist":
            return not value
    return bool(value)


def _terminating(pod: Object) -> bool:
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _best_effort(spec: Object) -> bool:
    parts = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ()), spec]
    for part in parts:
        resources = part.get("resources") or {}
        for field in ("requests", "limits"):
            amounts = quantities(resources.get(field))
            if any(name in ("cpu", "memory") and amount for name, amount in amounts.items()):
                return False
    return True


def _crosses_namespaces(affinity: Object) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in [*required, *(each.get("podAffinityTerm") or {} for each in preferred)]:
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False
