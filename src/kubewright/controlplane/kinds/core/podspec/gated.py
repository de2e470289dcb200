"""Fields of features that are not switched on: accepted, and left out of what is stored.

The API of a release names fields of features that are still being tried out. A server on which such a feature
is off takes an object that uses one and drops the field, so that the object means the same everywhere.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_PROJECTIONS = ("clusterTrustBundle", "podCertificate")


def drop_gated_fields(spec: Object) -> None:
    """Take the fields of features that are off out of the spec of a pod or of a template."""
    spec.pop("schedulingGroup", None)
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                del container["lifecycle"]
    for volume in spec.get("volumes") or ():
        for projection in (volume.get("projected") or {}).get("sources") or ():
            for kind in _PROJECTIONS:
                projection.pop(kind, None)
