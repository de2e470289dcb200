"""Errors of admission plug-ins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubewright.api.builtin.resources import resource_of_kind
from kubewright.api.builtin.schemas import definition_name
from kubewright.api.errors import Forbidden, forbidden
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.admission import AdmissionAttributes


def request_name(request: AdmissionAttributes) -> str:
    """Return the name for messages: of the object, else its generateName, else a placeholder."""
    if request.name:
        return request.name
    metadata = (request.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def other_kind(made: GroupVersionKind, kind: GroupVersionKind) -> str:
    """Return the error of a patch that changes the kind of a built-in object."""
    if resource_of_kind(made) is not None:
        inside = definition_name(kind).split(".")[-3]
        return f"converting ({made.version}.{made.kind}) to ({inside}.{kind.kind}): unknown conversion"
    return (
        f'no kind "{made.kind}" is registered for version "{made.group_version}" in scheme '
        '"pkg/api/legacyscheme/scheme.go:30"'
    )


def reject(request: AdmissionAttributes, why: str, causes: Sequence[dict[str, Any]] = ()) -> Forbidden:
    """Return a 403 error for the object of a request."""
    return forbidden(request.resource.group_resource, request_name(request), why, causes)
