"""Cells that the tables of persistent volumes and of claims share."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named the storage class before the field existed."""
CLASS_DEPRECATION = 'deprecated since v1.8; use "storageClassName" attribute instead'
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def modes_text(modes: list[str] | None) -> str:
    """Return access modes in the short notation of kubectl."""
    return ",".join(_SHORT_MODES[mode] for mode in _SHORT_MODES if mode in (modes or ()))


def phase_of(obj: Object) -> str:
    """Return the phase of a volume or claim."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def class_of(obj: Object) -> str:
    """Return the storage class of a volume or claim."""
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get(CLASS_ANNOTATION) or (obj.get("spec") or {}).get("storageClassName") or ""
