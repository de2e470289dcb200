"""Attaching of volumes to nodes for VolumeAttachments, as the external-attacher does.

Permissions: get, list, watch and patch of VolumeAttachments and patch of their status; get, list, watch and
patch of PersistentVolumes; get, list and watch of CSINodes; get of Secrets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.api.core.v1 import PersistentVolume
from kubewright.api.errors import NotFound
from kubewright.api.finalizers import add_finalizer, has_finalizer, remove_finalizer
from kubewright.api.storage.v1 import CSINode, VolumeAttachment, VolumeAttachmentStatus, VolumeError
from kubewright.api.values.times import now
from kubewright.controller import Controller, ControllerBuilder, Request, TemporaryError
from kubewright.node.errors import RPCError

from .messages import ControllerCall, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest
from .services import CONTROLLER_PUBLISH_VOLUME, CONTROLLER_UNPUBLISH_VOLUME
from .sidecar import Sidecar
from .volumes import capability_of, driver_of, read_secret

NODE_RETRY: Final = 5.0
"""Seconds to the next attempt for a node that the driver does not run on."""


class Attacher(Sidecar):
    """Attaches and detaches volumes.

    For a driver without ControllerPublishVolume, attachments are marked as attached without a call.
    """

    def add(self) -> list[Controller[Request]]:
        """Add the controller to the manager."""

        async def attachments_on_node(node: CSINode) -> Iterable[Request]:
            return [
                Request.of(each)
                for each in await self._client.list(VolumeAttachment)
                if each.spec is not None and each.spec.node_name == node.name and not _is_attached(each)
            ]

        builder: ControllerBuilder[Request] = ControllerBuilder(
            self._manager, f"csi-attacher-{self._driver.name}"
        )
        return [builder.for_(VolumeAttachment).watches(CSINode, attachments_on_node).complete(self.reconcile)]

    @property
    def _finalizer(self) -> str:
        return f"external-attacher/{self._driver.name.replace('.', '-')}"

    async def reconcile(self, attachment: VolumeAttachment) -> None:
        """Attach or detach a volume."""
        if attachment.spec is None or attachment.spec.attacher != self._driver.name:
            return
        if attachment.metadata.deletion_timestamp is not None:
            if has_finalizer(attachment, self._finalizer):
                await self._detach(attachment)
        elif not _is_attached(attachment):
            await self._attach(attachment)

    async def _attach(self, attachment: VolumeAttachment) -> None:
        context: dict[str, str] = {}
        if self._driver.supports(ControllerCall.PUBLISH_UNPUBLISH_VOLUME):
            if add_finalizer(attachment, self._finalizer):
                await self._client.update(attachment)
            try:
                context = await self._publish(attachment)
            except (RPCError, LookupError, NotFound) as error:
                failure = VolumeError(message=str(error), time=now())
                attachment.status = VolumeAttachmentStatus(attached=False, attach_error=failure)
                await self._client.update_status(attachment)
                if isinstance(error, LookupError):
                    raise TemporaryError(str(error), delay=NODE_RETRY) from None
                raise
        attachment.status = VolumeAttachmentStatus(attached=True, attachment_metadata=context or None)
        await self._client.update_status(attachment)

    async def _publish(self, attachment: VolumeAttachment) -> dict[str, str]:
        volume = await self._volume(attachment)
        if add_finalizer(volume, self._finalizer):
            await self._client.update(volume)
        assert volume.spec is not None
        assert volume.spec.csi is not None
        csi = volume.spec.csi
        request = ControllerPublishVolumeRequest(
            volume_id=csi.volume_handle or "",
            node_id=await self._node_id(attachment),
            volume_capability=capability_of(volume, separates_writers=self._separates_writers),
            readonly=bool(csi.read_only) and self._driver.supports(ControllerCall.PUBLISH_READONLY),
            secrets=await read_secret(self._client, csi.controller_publish_secret_ref),
            volume_context=dict(csi.volume_attributes or {}),
        )
        response = await self._driver.call(CONTROLLER_PUBLISH_VOLUME, request)
        return response.publish_context

    async def _detach(self, attachment: VolumeAttachment) -> None:
        volume = await self._volume(attachment)
        assert volume.spec is not None
        assert volume.spec.csi is not None
        request = ControllerUnpublishVolumeRequest(
            volume_id=volume.spec.csi.volume_handle or "",
            node_id=await self._node_id(attachment),
            secrets=await read_secret(self._client, volume.spec.csi.controller_publish_secret_ref),
        )
        try:
            await self._driver.call(CONTROLLER_UNPUBLISH_VOLUME, request)
        except RPCError as error:
            status = attachment.status = attachment.status or VolumeAttachmentStatus(attached=True)
            status.detach_error = VolumeError(message=str(error), time=now())
            await self._client.update_status(attachment)
            raise
        remove_finalizer(attachment, self._finalizer)
        await self._client.update(attachment)
        others = [
            each
            for each in await self._client.list(VolumeAttachment)
            if each.name != attachment.name and _volume_name(each) == volume.name
        ]
        if not others and remove_finalizer(volume, self._finalizer):
            await self._client.update(volume)

    async def _volume(self, attachment: VolumeAttachment) -> PersistentVolume:
        name = _volume_name(attachment)
        volume = await self._client.get_or_none(PersistentVolume, name) if name else None
        if volume is None or driver_of(volume) != self._driver.name:
            raise LookupError(f"volume {name!r} is not a volume of {self._driver.name}")
        return volume

    async def _node_id(self, attachment: VolumeAttachment) -> str:
        assert attachment.spec is not None
        name = attachment.spec.node_name or ""
        node = await self._client.get_or_none(CSINode, name)
        drivers = (node.spec.drivers if node is not None and node.spec is not None else None) or ()
        for driver in drivers:
            if driver.name == self._driver.name and driver.node_id:
                return driver.node_id
        raise LookupError(f"CSINode {name} does not contain driver {self._driver.name}")


def _is_attached(attachment: VolumeAttachment) -> bool:
    return bool(attachment.status is not None and attachment.status.attached)


def _volume_name(attachment: VolumeAttachment) -> str:
    source = attachment.spec.source if attachment.spec is not None else None
    return (source.persistent_volume_name or "") if source is not None else ""
