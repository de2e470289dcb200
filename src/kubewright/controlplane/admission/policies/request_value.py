"""The admission request without its objects, for AdmissionReviews and the CEL variable `request`."""

from __future__ import annotations

from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.resources.objects import Object

from .equivalents import Match


def request_value(request: AdmissionAttributes, match: Match) -> Object:
    """Return the request; empty names are omitted."""
    name = request_name(request)
    value: Object = {"kind": _kind(match.kind), "resource": _resource(match.resource)}
    if request.subresource:
        value["subResource"] = request.subresource
    value["requestKind"] = _kind(request.kind)
    value["requestResource"] = _resource(request.resource)
    if request.subresource:
        value["requestSubResource"] = request.subresource
    if name:
        value["name"] = name
    namespace = request_namespace(request)
    if namespace:
        value["namespace"] = namespace
    value["operation"] = request.operation
    value["userInfo"] = request.user.to_info()
    value["dryRun"] = request.dry_run
    value["options"] = request.options
    return value


def request_name(request: AdmissionAttributes) -> str:
    """Return the name; empty for deletecollection and before a name is generated."""
    if request.request is not None and request.request.info.verb == "deletecollection":
        return ""
    return request.name


def request_namespace(request: AdmissionAttributes) -> str:
    """Return the namespace; that of a namespace is its own name."""
    return request_name(request) if is_namespace(request.resource) else request.namespace


def is_namespace(resource: GroupVersionResource) -> bool:
    """Return whether a resource is the namespaces resource."""
    return resource.resource == "namespaces" and not resource.group


def _kind(kind: GroupVersionKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: GroupVersionResource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}
