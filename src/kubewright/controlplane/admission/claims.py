"""PersistentVolumeClaimResize: claims can grow only if their storage class allows expansion."""

from __future__ import annotations

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.informers import Informers

from .rejection import reject

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Legacy annotation for the storage class of a claim; takes precedence over the field."""


class ClaimResize(AdmissionPlugin):
    """Bound claims can grow if their class sets `allowVolumeExpansion`."""

    name = "PersistentVolumeClaimResize"
    validating = True
    rules = (AdmissionRule(("UPDATE",), "", ("persistentvolumeclaims",)),)

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject growth that the storage class does not support."""
        new, old = request.object or {}, request.old_object or {}
        if _size(new) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise reject(request, "Only bound persistent volume claims can be expanded")
        if not await self._may_grow(_class(new), _class(old)):
            raise reject(
                request,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
                " must support resize",
            )

    async def _may_grow(self, new: str, old: str) -> bool:
        if not new or new != old:
            return False
        found = await self._informers.get("storage.k8s.io", "storageclasses", new)
        return found is not None and bool(found.get("allowVolumeExpansion"))


def _size(claim: Object) -> Quantity:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return Quantity((resources.get("requests") or {}).get("storage") or 0)


def _class(claim: Object) -> str:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    if CLASS_ANNOTATION in annotations:
        return str(annotations[CLASS_ANNOTATION])
    return str((claim.get("spec") or {}).get("storageClassName") or "")
