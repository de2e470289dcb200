"""Attaching of CSI volumes to nodes (`persistentvolume-attach-detach-controller`).

For each volume that a pod of a node uses, and whose driver requires it, a VolumeAttachment is created; the
attacher of the driver attaches the volume. It is deleted when no pod of the node uses the volume, and the
kubelet has unmounted it (`status.volumesInUse` of the Node).

Permissions: get, list, watch and patch of Nodes and their status; get, list and watch of Pods,
PersistentVolumeClaims, PersistentVolumes and CSIDrivers; get, list, watch, create and delete of
VolumeAttachments; create and patch of Events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubewright.api.core.v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubewright.api.errors import AlreadyExists
from kubewright.api.meta import ObjectMeta
from kubewright.api.storage.v1 import (
    CSIDriver,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from kubewright.cache import by_field
from kubewright.client import patches
from kubewright.controller import ControllerBuilder, Request
from kubewright.node.csi.volumes import ATTACHMENT_PREFIX, attachment_name, unique_name
from kubewright.workloads.component_manager import ComponentManager

_FINISHED: Final = ("Succeeded", "Failed")


def add_attach_detach_controller(manager: ComponentManager) -> None:
    """Add the controller of VolumeAttachments."""
    manager.cache.add_index(VolumeAttachment, by_field("spec.nodeName"))

    def node_of_pod(pod: Pod) -> Iterable[Request]:
        if pod.spec is not None and pod.spec.node_name:
            yield Request("", pod.spec.node_name)

    def node_of_attachment(attachment: VolumeAttachment) -> Iterable[Request]:
        if attachment.spec is not None and attachment.spec.node_name:
            yield Request("", attachment.spec.node_name)

    (
        ControllerBuilder[Request](manager, "persistentvolume-attach-detach-controller")
        .for_(Node)
        .watches(Pod, node_of_pod)
        .watches(VolumeAttachment, node_of_attachment)
        .complete(AttachDetach(manager).reconcile)
    )


class _Volume(NamedTuple):
    """A volume that has to be attached, and a pod that uses it."""

    name: str
    driver: str
    handle: str
    pod: Pod


class AttachDetach:
    """Reconciles the VolumeAttachments of nodes."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client

    async def reconcile(self, request: Request) -> None:
        """Create and delete the attachments of a node."""
        wanted = await self._wanted(request.name)
        attachments = {
            each.name: each
            for each in await self._manager.cache.list(
                VolumeAttachment, fields={"spec.nodeName": request.name}
            )
        }
        node = await self._client.get_or_none(Node, request.name)
        in_use = set(
            (node.status.volumes_in_use if node is not None and node.status is not None else None) or ()
        )
        for name, volume in wanted.items():
            if name not in attachments:
                await self._attach(name, volume, request.name)
        for name, attachment in attachments.items():
            # An attachment with another name was not created by this controller.
            if (
                name not in wanted
                and name.startswith(ATTACHMENT_PREFIX)
                and attachment.metadata.deletion_timestamp is None
            ):
                handle = await self._unique_name(attachment)
                if handle not in in_use:
                    await self._client.delete(attachment, missing_ok=True)
        if node is not None:
            await self._write_attached(node, wanted, attachments)

    async def _wanted(self, node: str) -> dict[str, _Volume]:
        """Return the volumes that pods of a node use, by the name of their attachment."""
        found: dict[str, _Volume] = {}
        for pod in await self._manager.cache.list(Pod, fields={"spec.nodeName": node}):
            if pod.spec is None or (pod.status is not None and pod.status.phase in _FINISHED):
                continue
            for volume in pod.spec.volumes or ():
                if volume.persistent_volume_claim is not None:
                    claim = volume.persistent_volume_claim.claim_name or ""
                elif volume.ephemeral is not None:
                    claim = f"{pod.name}-{volume.name}"
                else:
                    continue
                csi = await self._csi_volume(pod, claim)
                if csi is not None:
                    found[attachment_name(csi.handle, csi.driver, node)] = csi
        return found

    async def _csi_volume(self, pod: Pod, claim_name: str) -> _Volume | None:
        claim = await self._client.get_or_none(PersistentVolumeClaim, claim_name, namespace=pod.namespace)
        name = claim.spec.volume_name if claim is not None and claim.spec is not None else None
        volume = await self._client.get_or_none(PersistentVolume, name) if name else None
        csi = volume.spec.csi if volume is not None and volume.spec is not None else None
        if volume is None or csi is None or not csi.driver or not csi.volume_handle:
            return None
        driver = await self._client.get_or_none(CSIDriver, csi.driver)
        if driver is not None and driver.spec is not None and driver.spec.attach_required is False:
            return None
        return _Volume(volume.name, csi.driver, csi.volume_handle, pod)

    async def _attach(self, name: str, volume: _Volume, node: str) -> None:
        attachment = VolumeAttachment(
            metadata=ObjectMeta(name=name),
            spec=VolumeAttachmentSpec(
                attacher=volume.driver,
                node_name=node,
                source=VolumeAttachmentSource(persistent_volume_name=volume.name),
            ),
        )
        try:
            await self._client.create(attachment)
        except AlreadyExists:
            return

    async def _unique_name(self, attachment: VolumeAttachment) -> str:
        source = attachment.spec.source if attachment.spec is not None else None
        name = source.persistent_volume_name if source is not None else None
        volume = await self._client.get_or_none(PersistentVolume, name) if name else None
        csi = volume.spec.csi if volume is not None and volume.spec is not None else None
        return unique_name(csi.driver or "", csi.volume_handle or "") if csi is not None else ""

    async def _write_attached(
        self, node: Node, wanted: dict[str, _Volume], attachments: dict[str, VolumeAttachment]
    ) -> None:
        """Write the attached volumes to the status of the node, and record events about new ones."""
        before = {
            each.name for each in (node.status.volumes_attached if node.status is not None else None) or ()
        }
        after = set()
        for name, volume in wanted.items():
            attachment = attachments.get(name)
            status = attachment.status if attachment is not None else None
            unique = unique_name(volume.driver, volume.handle)
            if status is not None and status.attached:
                after.add(unique)
                if unique not in before:
                    text = f'AttachVolume.Attach succeeded for volume "{volume.name}" '
                    self._manager.recorder.event(volume.pod, "Normal", "SuccessfulAttachVolume", text)
            elif status is not None and status.attach_error is not None:
                text = (
                    f'AttachVolume.Attach failed for volume "{volume.name}" : {status.attach_error.message}'
                )
                self._manager.recorder.event(volume.pod, "Warning", "FailedAttachVolume", text)
        if after != before:
            attached = [{"name": name, "devicePath": ""} for name in sorted(after)]
            change = patches.merge_patch({"status": {"volumesAttached": attached or None}})
            await self._client.patch(Node, node.name, change, subresource="status")
