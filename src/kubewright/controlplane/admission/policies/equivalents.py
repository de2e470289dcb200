"""Equivalent resources: other versions and groups under which the same objects are served.

Rules with matchPolicy Equivalent match a request through any of them. Events are served in the core group and
in events.k8s.io; all other resources have equivalents in their own group only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubewright.api.gvk import GroupVersionKind, GroupVersionResource
from kubewright.apiserver.resources.objects import Object

if TYPE_CHECKING:
    from kubewright.apiserver.admission import AdmissionAttributes
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.server import APIServer


class Match(NamedTuple):
    """Resource and kind in which a webhook or policy sees a request."""

    resource: GroupVersionResource
    kind: GroupVersionKind


_EVENT_GROUPS = {"": "events.k8s.io", "events.k8s.io": ""}


def equivalents(request: AdmissionAttributes) -> list[Match]:
    """Return the equivalents of the resource of a request, without itself.

    A subresource with a kind of its own (Scale, Binding) keeps that kind in all versions.
    """
    served = request.served_resource
    if served is None:
        return []
    found: list[Match] = []
    for version in served.versions if len(served.versions) > 1 else ():
        if (
            version.name != request.resource.version
            and version.served
            and (not request.subresource or request.subresource in version.subresources)
        ):
            has_own_kind = request.definition is None
            kind = request.kind if has_own_kind else request.kind._replace(version=version.name)
            found.append(Match(request.resource._replace(version=version.name), kind))
    if served.plural == "events" and served.group in _EVENT_GROUPS:
        group = _EVENT_GROUPS[served.group]
        found.append(Match(request.resource._replace(group=group), request.kind._replace(group=group)))
    return found


def definition_of(server: APIServer, request: AdmissionAttributes, kind: GroupVersionKind) -> Resource | None:
    """Return the declaration of the resource in which a request is seen."""
    if request.definition is None or request.definition.group == kind.group:
        return request.definition
    store = server.store(kind.group, request.definition.plural)
    return store.resource if store is not None else None


def convert_between_groups(obj: Object, kind: GroupVersionKind) -> Object:
    """Return an event as an object of the other group."""
    from kubewright.controlplane.kinds.events.event import event_in_group

    return event_in_group(obj, str(kind.group_version))
