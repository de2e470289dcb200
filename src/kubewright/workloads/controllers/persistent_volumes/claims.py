"""Binding of claims to volumes, provisioning and expansion (`persistentvolume-binder-controller`).

Phases of volumes, and what happens to a volume when its claim is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.core.v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
    Pod,
)
from kubewright.api.storage.v1 import StorageClass
from kubewright.cache import by_field
from kubewright.client.patches import has_changes
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager

from .matching import (
    capacity,
    claim_class,
    find_volume,
    is_claimed_by,
    mismatch,
    requested_size,
    volume_class,
)
from .provisioner import (
    BOUND_BY_CONTROLLER,
    IS_DEFAULT,
    PROVISIONED_BY,
    SELECTED_NODE,
    claim_reference,
    create_default_class,
    is_simulated,
    provision,
)

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
LOST = "Data on the volume is lost!"


async def add_persistent_volume_binder_controller(manager: ComponentManager) -> None:
    """Add the controllers of volumes and claims; with simulated nodes, create the default storage class."""
    if manager.workloads.nodes not in (0, "0"):
        await create_default_class(manager)
    manager.cache.add_index(PersistentVolumeClaim, by_field("status.phase"))
    volumes = VolumeReconciler(manager)
    claims = ClaimReconciler(manager, volumes)

    async def claims_of_volume(volume: PersistentVolume) -> Iterable[Request]:
        assert volume.spec is not None
        reference = volume.spec.claim_ref
        if reference is not None:
            return [Request(reference.namespace or "", reference.name or "")]
        return await claims.pending(volume_class(volume))

    async def claims_of_class(storage_class: StorageClass) -> Iterable[Request]:
        return await claims.pending(None)

    def volume_of_claim(claim: PersistentVolumeClaim) -> Iterable[Request]:
        if claim.spec is not None and claim.spec.volume_name:
            yield Request("", claim.spec.volume_name)

    (
        ControllerBuilder[Request](manager, "persistentvolume-binder-controller")
        .for_(PersistentVolumeClaim)
        .watches(PersistentVolume, claims_of_volume)
        .watches(StorageClass, claims_of_class)
        .complete(claims.reconcile)
    )
    (
        ControllerBuilder[Request](manager, "persistentvolume-binder-controller-volumes")
        .for_(PersistentVolume)
        .watches(PersistentVolumeClaim, volume_of_claim)
        .complete(volumes)
    )


class ClaimReconciler:
    """Reconciles PersistentVolumeClaims."""

    def __init__(self, manager: ComponentManager, volumes: VolumeReconciler) -> None:
        self._manager = manager
        self._client = manager.client
        self._volumes = volumes

    async def pending(self, storage_class: str | None) -> list[Request]:
        """Return the claims that are not bound, of one storage class or all."""
        found = await self._manager.cache.list(PersistentVolumeClaim, fields={"status.phase": "Pending"})
        return [
            Request.of(claim)
            for claim in found
            if storage_class is None or (claim_class(claim) or "") == storage_class
        ]

    async def reconcile(self, claim: PersistentVolumeClaim) -> None:
        """Bind a claim, or check that it still has its volume."""
        if claim.spec is None:
            return
        if BIND_COMPLETED in (claim.metadata.annotations or {}):
            await self._check_bound(claim)
        elif claim.metadata.deletion_timestamp is None:
            await self._bind_unbound(claim)

    def _event(self, claim: PersistentVolumeClaim, type_: str, reason: str, message: str) -> None:
        record = self._manager.recorder.event
        record(claim, "Warning" if type_ == "Warning" else "Normal", reason, message)

    # Claims without a volume

    async def _bind_unbound(self, claim: PersistentVolumeClaim) -> None:
        assert claim.spec is not None
        if claim.spec.volume_name:
            await self._bind_named(claim, claim.spec.volume_name)
            return
        if claim_class(claim) is None:
            await self._set_default_class(claim)
        name = claim_class(claim) or ""
        storage_class = await self._client.get_or_none(StorageClass, name) if name else None
        delayed = (
            storage_class is not None
            and storage_class.volume_binding_mode == "WaitForFirstConsumer"
            and SELECTED_NODE not in (claim.metadata.annotations or {})
        )
        listed = await self._client.list(PersistentVolume)
        volume = find_volume(claim, listed, only_reserved=delayed)
        if volume is None and not delayed and storage_class is not None:
            volume = await self._provision(claim, storage_class)
        if volume is not None:
            await self._bind(claim, volume)
            return
        if delayed:
            await self._report_waiting(claim)
        elif not name:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._event(claim, "Normal", "FailedBinding", text)
        elif storage_class is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self._event(claim, "Warning", "ProvisioningFailed", text)
        await self._set_status(claim, "Pending")

    async def _set_default_class(self, claim: PersistentVolumeClaim) -> None:
        """Assign the default storage class to a claim that was created before it existed."""
        assert claim.spec is not None
        classes = [
            each
            for each in await self._client.list(StorageClass)
            if (each.metadata.annotations or {}).get(IS_DEFAULT) == "true"
        ]
        if classes:
            newest = max(classes, key=lambda each: (str(each.metadata.creation_timestamp), each.name))
            claim.spec.storage_class_name = newest.name
            await self._client.update(claim)

    async def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> PersistentVolume | None:
        provisioner = storage_class.provisioner or ""
        annotations = dict(claim.metadata.annotations or {})
        wanted = {STORAGE_PROVISIONER: provisioner, BETA_STORAGE_PROVISIONER: provisioner}
        if provisioner == "kubernetes.io/no-provisioner":
            return None
        if not wanted.items() <= annotations.items():
            claim.metadata.annotations = {**annotations, **wanted}
            await self._client.update(claim)
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or "
                "manually by the system administrator. If volume creation is delayed, please verify that "
                "the provisioner is running and correctly registered."
            )
            self._event(claim, "Normal", "ExternalProvisioning", text)
        if not await is_simulated(self._manager, provisioner):
            return None
        return await provision(self._manager, claim, storage_class)

    async def _report_waiting(self, claim: PersistentVolumeClaim) -> None:
        names = [
            pod.name
            for pod in await self._client.list(Pod, namespace=claim.namespace)
            if pod.spec is not None
            and not pod.spec.node_name
            and any(
                volume.persistent_volume_claim is not None
                and volume.persistent_volume_claim.claim_name == claim.name
                for volume in pod.spec.volumes or ()
            )
        ]
        if not names:
            text = "waiting for first consumer to be created before binding"
            self._event(claim, "Normal", "WaitForFirstConsumer", text)
            return
        subject = f"pods {','.join(names)}" if len(names) > 1 else f"pod {names[0]}"
        self._event(claim, "Normal", "WaitForPodScheduled", f"waiting for {subject} to be scheduled")

    async def _bind_named(self, claim: PersistentVolumeClaim, name: str) -> None:
        """Bind a claim that names its volume."""
        volume = await self._client.get_or_none(PersistentVolume, name)
        if volume is None or volume.spec is None:
            await self._set_status(claim, "Pending")
            return
        if volume.spec.claim_ref is None and (reason := mismatch(volume, claim)):
            text = f'Cannot bind to requested volume "{name}": {reason}'
            self._event(claim, "Warning", "VolumeMismatch", text)
            await self._set_status(claim, "Pending")
        elif volume.spec.claim_ref is None or is_claimed_by(volume, claim):
            await self._bind(claim, volume)
        else:
            text = f'volume "{name}" already bound to a different claim.'
            self._event(claim, "Warning", "FailedBinding", text)
            await self._set_status(claim, "Pending")

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Bind a volume and a claim: first the volume, then the claim, each with its status."""
        assert claim.spec is not None
        assert volume.spec is not None
        if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
            if volume.spec.claim_ref is None:
                annotations = volume.metadata.annotations or {}
                volume.metadata.annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
            volume.spec.claim_ref = claim_reference(claim)
            await self._client.update(volume)
        await self._volumes.set_phase(volume, "Bound")
        annotations = dict(claim.metadata.annotations or {})
        if not claim.spec.volume_name:
            annotations[BOUND_BY_CONTROLLER] = "yes"
            claim.spec.volume_name = volume.name
        annotations[BIND_COMPLETED] = "yes"
        claim.metadata.annotations = annotations
        if has_changes(claim, part="spec") or has_changes(claim, part="metadata"):
            await self._client.update(claim)
        await self._set_status(claim, "Bound", volume)

    async def _set_status(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> None:
        status = claim.status = claim.status or PersistentVolumeClaimStatus()
        status.phase = phase
        if volume is not None and volume.spec is not None:
            status.access_modes = volume.spec.access_modes
            if status.capacity is None:
                status.capacity = volume.spec.capacity
            status.current_volume_attributes_class_name = volume.spec.volume_attributes_class_name
        elif phase == "Pending":
            status.access_modes = status.capacity = None
        if has_changes(claim, part="status"):
            await self._client.update_status(claim)

    # Claims with a volume

    async def _check_bound(self, claim: PersistentVolumeClaim) -> None:
        assert claim.spec is not None
        if not claim.spec.volume_name:
            text = f"Bound claim has lost reference to PersistentVolume. {LOST}"
            await self._lose(claim, "ClaimLost", text)
            return
        volume = await self._client.get_or_none(PersistentVolume, claim.spec.volume_name)
        if volume is None or volume.spec is None:
            await self._lose(claim, "ClaimLost", f"Bound claim has lost its PersistentVolume. {LOST}")
        elif volume.spec.claim_ref is None or is_claimed_by(volume, claim):
            await self._bind(claim, volume)
            await self._expand(claim, volume)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", text)

    async def _lose(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        if claim.status is None or claim.status.phase != "Lost":
            self._event(claim, "Warning", reason, message)
        await self._set_status(claim, "Lost")

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Expand a volume, and then the claim, to the requested size."""
        assert volume.spec is not None
        assert claim.status is not None
        wanted = requested_size(claim)
        current = (claim.status.capacity or {}).get("storage")
        if current is None or wanted <= current:
            return
        provisioner = (volume.metadata.annotations or {}).get(PROVISIONED_BY, "")
        if not await is_simulated(self._manager, provisioner):
            text = "waiting for an external controller to expand this PVC"
            self._event(claim, "Normal", "ExternalExpanding", text)
            return
        if capacity(volume) < wanted:
            volume.spec.capacity = {**(volume.spec.capacity or {}), "storage": wanted}
            await self._client.update(volume)
        claim.status.capacity = {**(claim.status.capacity or {}), "storage": wanted}
        claim.status.conditions = None
        await self._client.update_status(claim)
        self._event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")


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
