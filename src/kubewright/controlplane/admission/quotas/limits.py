"""LimitRanger: limits and defaults for resources of a pod, container or claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers

from .usage import pod_limits, pod_requests

ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger(AdmissionPlugin):
    """Applies the limit ranges of the namespace."""

    name = "LimitRanger"
    mutating = True
    validating = True
    reinvoke = True
    rules = (
        AdmissionRule(("CREATE",), "", ("pods", "persistentvolumeclaims")),
        AdmissionRule(("UPDATE",), "", ("pods/resize", "persistentvolumeclaims")),
    )

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle objects that are not being deleted."""
        return not ((request.old_object or {}).get("metadata") or {}).get("deletionTimestamp")

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Set default requests and limits of containers."""
        if request.resource.resource != "pods":
            return False
        changed = False
        for limit_range in await self._informers.list("", "limitranges", namespace=request.namespace):
            assert request.object is not None
            changed |= _fill(request.object, limit_range)
        return changed

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check minimum, maximum and ratio."""
        assert request.object is not None
        for limit_range in await self._informers.list("", "limitranges", namespace=request.namespace):
            complaints = list(_complaints(request.resource.resource, request.object, limit_range))
            if complaints:
                unique = list(dict.fromkeys(complaints))
                raise reject(request, unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")


def _fill(pod: Object, limit_range: Object) -> bool:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for limit in limit_range["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            limits.update(limit.get("default") or {})
    parts: list[str] = []
    for part, label in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(part) or ():
            resources: Object = container.setdefault("resources", {})
            for field, word, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
                have: dict[str, str] = resources.get(field) or {}
                added = {name: value for name, value in defaults.items() if name not in have}
                if added:
                    resources[field] = {**have, **added}
                    parts.append(f"{', '.join(sorted(added))} {word} for {label} {container.get('name')}")
    if parts:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(parts)
    return bool(parts)


def _complaints(resource: str, obj: Object, limit_range: Object) -> Iterable[str]:
    spec: Object = obj.get("spec") or {}
    for limit in limit_range["spec"].get("limits") or ():
        type_ = limit.get("type")
        if resource == "persistentvolumeclaims":
            if type_ == "PersistentVolumeClaim":
                requests = (spec.get("resources") or {}).get("requests") or {}
                yield from _minimum(type_, limit, requests, {})
                yield from _maximum_request(type_, limit, requests)
        elif type_ == "Container":
            for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                resources = container.get("resources") or {}
                yield from _all(type_, limit, resources.get("requests") or {}, resources.get("limits") or {})
        elif type_ == "Pod":
            yield from _all(type_, limit, pod_requests(spec), pod_limits(spec))


def _all(type_: str, limit: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterable[str]:
    yield from _minimum(type_, limit, requests, limits)
    yield from _maximum(type_, limit, requests, limits)
    yield from _ratio(type_, limit, requests, limits)


def _minimum(
    type_: str, limit: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterable[str]:
    for name, least in sorted((limit.get("min") or {}).items()):
        text = f"minimum {name} usage per {type_} is {Quantity(least)}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif Quantity(requests[name]) < Quantity(least):
            yield f"{text}, but request is {Quantity(requests[name])}"
        elif name in limits and Quantity(limits[name]) < Quantity(least):
            yield f"{text}, but limit is {Quantity(limits[name])}"


def _maximum(
    type_: str, limit: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterable[str]:
    for name, most in sorted((limit.get("max") or {}).items()):
        text = f"maximum {name} usage per {type_} is {Quantity(most)}"
        if name not in limits:
            yield f"{text}.  No limit is specified"
        elif Quantity(limits[name]) > Quantity(most):
            yield f"{text}, but limit is {Quantity(limits[name])}"
        elif name in requests and Quantity(requests[name]) > Quantity(most):
            yield f"{text}, but request is {Quantity(requests[name])}"


def _maximum_request(type_: str, limit: Object, requests: Mapping[str, Any]) -> Iterable[str]:
    for name, most in sorted((limit.get("max") or {}).items()):
        text = f"maximum {name} usage per {type_} is {Quantity(most)}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif Quantity(requests[name]) > Quantity(most):
            yield f"{text}, but request is {Quantity(requests[name])}"


def _ratio(
    type_: str, limit: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterable[str]:
    for name, most in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        text = f"{name} max limit to request ratio per {type_} is {Quantity(most)}"
        request, bound = Quantity(requests.get(name, 0)), Quantity(limits.get(name, 0))
        if request == Quantity(0):
            yield f"{text}, but no request is specified or request is 0"
        elif bound == Quantity(0):
            yield f"{text}, but no limit is specified or limit is 0"
        else:
            ratio = float(bound) / float(request)
            if ratio > float(Quantity(most)):
                yield f"{text}, but provided ratio is {ratio:f}"
