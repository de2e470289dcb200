"""Phases of volumes, and what happens to a volume when its claim is deleted."""

from __future__ import annotations

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeStatus
from kubewright.client.patches import has_changes
from kubewright.controller import Request
from kubewright.workloads.component_manager import ComponentManager

from .provisioner import BOUND_BY_CONTROLLER, PROVISIONED_BY, is_simulated


class VolumeReconciler:
    """Reconciles PersistentVolumes."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client

    async def reconcile(self, request: Request) -> None:
        """Set the phase of a volume; delete or recycle it if its claim does not exist."""
        volume = await self._client.get_or_none(PersistentVolume, request.name)
        if volume is None or volume.spec is None:
            return
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self.set_phase(volume, "Available")
            return
        claim = await self._client.get_or_none(
            PersistentVolumeClaim, reference.name or "", namespace=reference.namespace
        )
        if claim is None or claim.metadata.uid != reference.uid:
            # The cache may not have received the claim yet, and a released volume can lose its data.
            claim = await self._client.uncached.get_or_none(
                PersistentVolumeClaim, reference.name or "", namespace=reference.namespace
            )
        if claim is None or claim.metadata.uid != reference.uid:
            await self._release(volume)
        elif claim.spec is not None and claim.spec.volume_name == volume.name:
            await self.set_phase(volume, "Bound")
        elif claim.spec is not None and claim.spec.volume_name:
            await self._unbind(volume)

    async def set_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> None:
        """Write the phase of a volume if it differs."""
        status = volume.status = volume.status or PersistentVolumeStatus()
        status.phase = phase
        status.message = message or None
        if has_changes(volume, part="status"):
            await self._client.update_status(volume)

    async def _unbind(self, volume: PersistentVolume) -> None:
        """Remove the claim from a volume; the claim is bound to another one."""
        assert volume.spec is not None
        annotations = dict(volume.metadata.annotations or {})
        if PROVISIONED_BY in annotations and volume.spec.persistent_volume_reclaim_policy == "Delete":
            await self._client.delete(volume, missing_ok=True)
            return
        if annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
            volume.spec.claim_ref = None
            volume.metadata.annotations = annotations or None
        elif volume.spec.claim_ref is not None:
            volume.spec.claim_ref.uid = None
        await self._client.update(volume)
        await self.set_phase(volume, "Available")

    async def _release(self, volume: PersistentVolume) -> None:
        assert volume.spec is not None
        phase = volume.status.phase if volume.status is not None else None
        if phase not in ("Released", "Failed"):
            await self.set_phase(volume, "Released")
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy == "Recycle":
            volume.spec.claim_ref = None
            await self._client.update(volume)
            self._manager.recorder.event(volume, "Normal", "VolumeRecycled", "Volume recycled")
            await self.set_phase(volume, "Available")
        elif policy == "Delete" and volume.metadata.deletion_timestamp is None:
            provisioner = (volume.metadata.annotations or {}).get(PROVISIONED_BY, "")
            if await is_simulated(self._manager, provisioner):
                await self._client.delete(volume, missing_ok=True)
