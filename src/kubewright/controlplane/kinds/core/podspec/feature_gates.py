"""Fields of pod specs whose feature gates are off by default: dropped, as kube-apiserver does."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object

_PROJECTIONS = ("clusterTrustBundle", "podCertificate")


def drop_disabled_fields(spec: Object) -> None:
    """Remove the fields of disabled features from a pod spec."""
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
