"""Expansion of volumes for claims, as the external-resizer does.

A claim that requests more than its status has is expanded: first the volume, by the driver; then, if the
driver requires it, the file system, by the kubelet, which then sets the capacity in the status.

Permissions: get, list, watch and patch of PersistentVolumeClaims and patch of their status; get, list, watch
and patch of PersistentVolumes; get of Secrets; create and patch of Events.
"""

from __future__ import annotations

from typing import Final

from kubewright.api.core.v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimCondition,
    PersistentVolumeClaimStatus,
)
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import now
from kubewright.controller import Controller, ControllerBuilder, Request
from kubewright.node.errors import RPCError

from .messages import CapacityRange, ControllerExpandVolumeRequest
from .services import CONTROLLER_EXPAND_VOLUME
from .sidecar import Sidecar
from .volumes import capability_of, driver_of, read_secret, requested_bytes

RESIZING: Final = "Resizing"
FILE_SYSTEM_PENDING: Final = "FileSystemResizePending"
_PENDING: Final = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."


class Resizer(Sidecar):
    """Expands volumes."""

    def add(self) -> list[Controller[Request]]:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(
            self._manager, f"csi-resizer-{self._driver.name}"
        )
        return [builder.for_(PersistentVolumeClaim).complete(self.reconcile)]

    async def reconcile(self, claim: PersistentVolumeClaim) -> None:
        """Expand the volume of a claim, if it requests more than it has."""
        status = claim.status
        if claim.spec is None or status is None or status.phase != "Bound" or not claim.spec.volume_name:
            return
        wanted, current = requested_bytes(claim), _storage(status.capacity)
        if not current or wanted <= current or claim.metadata.deletion_timestamp is not None:
            return
        volume = await self._client.get_or_none(PersistentVolume, claim.spec.volume_name)
        if volume is None or driver_of(volume) != self._driver.name:
            return
        assert volume.spec is not None
        if _storage(volume.spec.capacity) >= wanted:
            # The kubelet has to expand the file system.
            if not _has_condition(status, FILE_SYSTEM_PENDING):
                await self._wait_for_node(claim)
            return
        await self._expand(claim, volume, wanted)

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume, wanted: int) -> None:
        assert volume.spec is not None
        assert volume.spec.csi is not None
        assert claim.status is not None
        if not _has_condition(claim.status, RESIZING):
            _set_condition(claim.status, RESIZING)
            await self._client.update_status(claim)
        self._event(claim, "Normal", "Resizing", f"External resizer is resizing volume {volume.name}")
        csi = volume.spec.csi
        request = ControllerExpandVolumeRequest(
            volume_id=csi.volume_handle or "",
            capacity_range=CapacityRange(required_bytes=wanted),
            secrets=await read_secret(self._client, csi.controller_expand_secret_ref),
            volume_capability=capability_of(volume, separates_writers=self._separates_writers),
        )
        try:
            response = await self._driver.call(CONTROLLER_EXPAND_VOLUME, request)
        except RPCError as error:
            text = f'resize volume "{volume.name}" by resizer "{self._driver.name}" failed: {error}'
            self._event(claim, "Warning", "VolumeResizeFailed", text)
            raise
        size = Quantity(response.capacity_bytes or wanted).with_format("BinarySI")
        volume.spec.capacity = {**(volume.spec.capacity or {}), "storage": size}
        await self._client.update(volume)
        if response.node_expansion_required:
            await self._wait_for_node(claim)
            return
        claim.status.conditions = None
        claim.status.capacity = {**(claim.status.capacity or {}), "storage": size}
        await self._client.update_status(claim)
        self._event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _wait_for_node(self, claim: PersistentVolumeClaim) -> None:
        assert claim.status is not None
        claim.status.conditions = None
        _set_condition(claim.status, FILE_SYSTEM_PENDING, _PENDING)
        await self._client.update_status(claim)
        text = "Require file system resize of volume on node"
        self._event(claim, "Normal", "FileSystemResizeRequired", text)


def _storage(capacity: dict[str, Quantity] | None) -> int:
    size = (capacity or {}).get("storage")
    return size.as_int() if size is not None else 0


def _has_condition(status: PersistentVolumeClaimStatus, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in status.conditions or ())


def _set_condition(status: PersistentVolumeClaimStatus, kind: str, message: str | None = None) -> None:
    condition = PersistentVolumeClaimCondition(
        type=kind, status="True", message=message, last_transition_time=now()
    )
    status.conditions = [*(status.conditions or ()), condition]
