"""Persistent volumes and claims as `kubectl get` prints them."""

from __future__ import annotations

from typing import Any

from kubewright.apiserver.objects import Object
from kubewright.controlplane.kinds.printing import AGE, NAME, age_of, column, name_of

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Where the class was named before there was a field for it."""
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: list[str] | None) -> str:
    return ",".join(_SHORT_MODES[mode] for mode in _SHORT_MODES if mode in (modes or ()))


def _phase(obj: Object) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def _class(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(CLASS_ANNOTATION) or (obj.get("spec") or {}).get("storageClassName") or ""


def volume_cells(obj: Object) -> list[Any]:
    """The row of a volume."""
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim is not None else "",
        _class(obj),
        spec.get("volumeAttributesClassName") or "<unset>",
        (obj.get("status") or {}).get("reason") or "",
        age_of(obj),
        spec.get("volumeMode") or "<unset>",
    ]


def claim_cells(obj: Object) -> list[Any]:
    """The row of a claim."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName") or "",
        ((status.get("capacity") or {}).get("storage") or "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _class(obj),
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(obj),
        spec.get("volumeMode") or "<unset>",
    ]


VOLUME_COLUMNS = (
    NAME,
    column("Capacity", description="How much the volume holds."),
    column("Access Modes", description="How the volume can be mounted."),
    column("Reclaim Policy", description="What happens to the volume when it is released."),
    column("Status", description="The phase of the volume."),
    column("Claim", description="The claim that the volume is bound to."),
    column("StorageClass", description="StorageClass of the pv"),
    column("VolumeAttributesClass", description="VolumeAttributesClass of the pv"),
    column("Reason", description="Why the volume is in its phase."),
    AGE,
    column("VolumeMode", description="File system or block device.", wide=True),
)
CLAIM_COLUMNS = (
    NAME,
    column("Status", description="The phase of the claim."),
    column("Volume", description="The volume that the claim is bound to."),
    column("Capacity", description="How much the volume holds."),
    column("Access Modes", description="How the volume can be mounted."),
    column("StorageClass", description="StorageClass of the pvc"),
    column("VolumeAttributesClass", description="VolumeAttributesClass of the pvc"),
    AGE,
    column("VolumeMode", description="File system or block device.", wide=True),
)
