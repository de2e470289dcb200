"""How plug-ins refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubewright.api.errors import Forbidden, forbidden
from kubewright.apiserver.admission import AdmissionRequest


def request_name(request: AdmissionRequest) -> str:
    """The name that messages show: that of the object, else its prefix, else a stand-in."""
    if request.name:
        return request.name
    metadata = (request.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def refuse(request: AdmissionRequest, why: str, causes: Sequence[dict[str, Any]] = ()) -> Forbidden:
    """403 for the object of a request."""
    return forbidden(request.resource.group_resource, request_name(request), why, causes)
