"""Which volume satisfies a claim: class, access modes, volume mode, size and selector."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim
from kubewright.api.selectors.label_selectors import selector_of
from kubewright.api.values.quantity import Quantity

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def claim_class(claim: PersistentVolumeClaim) -> str | None:
    """Return the storage class of a claim; `None` if it is not set."""
    annotations = claim.metadata.annotations or {}
    if CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return claim.spec.storage_class_name if claim.spec is not None else None


def volume_class(volume: PersistentVolume) -> str:
    """Return the storage class of a volume, empty if it has none."""
    annotations = volume.metadata.annotations or {}
    if CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return (volume.spec.storage_class_name if volume.spec is not None else None) or ""


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    """Return the size that a claim requests."""
    resources = claim.spec.resources if claim.spec is not None else None
    return ((resources.requests if resources is not None else None) or {}).get("storage") or Quantity(0)


def capacity(volume: PersistentVolume) -> Quantity:
    """Return the size of a volume."""
    return ((volume.spec.capacity if volume.spec is not None else None) or {}).get("storage") or Quantity(0)


def is_claimed_by(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or reserved for it by name."""
    reference = volume.spec.claim_ref if volume.spec is not None else None
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.namespace, claim.name)
        and reference.uid in (None, "", claim.metadata.uid)
    )


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Return why a volume does not satisfy a claim; empty if it does."""
    assert volume.spec is not None
    assert claim.spec is not None
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.name}"'
    if capacity(volume) < requested_size(claim):
        return "requested PV is too small"
    if volume_class(volume) != (claim_class(claim) or ""):
        return "storageClassName does not match"
    if (claim.spec.volume_attributes_class_name or "") != (volume.spec.volume_attributes_class_name or ""):
        return "volumeAttributesClassName does not match"
    if (claim.spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem"):
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ()):
        return "incompatible accessMode"
    return ""


def find_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, only_reserved: bool
) -> PersistentVolume | None:
    """Return the volume reserved for a claim, or the smallest one that satisfies it.

    With `only_reserved` a volume is only returned if it is reserved: the scheduler chooses among others.
    """
    assert claim.spec is not None
    selector = selector_of(claim.spec.selector) if claim.spec.selector is not None else None
    best: PersistentVolume | None = None
    for volume in volumes:
        if mismatch(volume, claim):
            continue
        if is_claimed_by(volume, claim):
            return volume
        assert volume.spec is not None
        phase = volume.status.phase if volume.status is not None else None
        if only_reserved or volume.spec.claim_ref is not None or phase not in (None, "Pending", "Available"):
            continue
        if selector is not None and not selector.matches(volume.metadata.labels):
            continue
        if best is None or _order(volume) < _order(best):
            best = volume
    return best


def _order(volume: PersistentVolume) -> tuple[int, Quantity]:
    assert volume.spec is not None
    return len(volume.spec.access_modes or ()), capacity(volume)
