"""Snapshots of volumes, as the snapshot-controller and the csi-snapshotter create them.

A VolumeSnapshot of a user gets a VolumeSnapshotContent, for which the driver creates a snapshot. In a cluster
with the snapshot-controller of the snapshot project, only the second part is needed (`contents_only`).

Permissions: get, list, watch, create, patch and delete of VolumeSnapshotContents; get, list, watch and patch
of VolumeSnapshots; patch of the status of both; get, list and watch of VolumeSnapshotClasses,
PersistentVolumeClaims and PersistentVolumes; get of Secrets; create and patch of Events.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from kubewright.api.core.v1 import PersistentVolume, PersistentVolumeClaim
from kubewright.api.errors import AlreadyExists
from kubewright.api.finalizers import add_finalizer, has_finalizer, remove_finalizer
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import now
from kubewright.client.patches import has_changes
from kubewright.controller import Controller, ControllerBuilder, Request, Result
from kubewright.node.errors import RPCError

from .messages import CreateSnapshotRequest, DeleteSnapshotRequest, ListSnapshotsRequest, Snapshot
from .services import CREATE_SNAPSHOT, DELETE_SNAPSHOT, LIST_SNAPSHOTS
from .sidecar import Sidecar
from .snapshot_types import (
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotContentSource,
    VolumeSnapshotContentSpec,
    VolumeSnapshotError,
)
from .volumes import PREFIX, driver_of, read_secret, secret_reference

BOUND: Final = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
CONTENT_BOUND: Final = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
DEFAULT_CLASS: Final = "snapshot.storage.kubernetes.io/is-default-class"
DELETION_SECRET: Final = (
    "snapshot.storage.kubernetes.io/deletion-secret-name",
    "snapshot.storage.kubernetes.io/deletion-secret-namespace",
)
READY_INTERVAL: Final = 1.0
"""Seconds between checks of a snapshot that is not ready to use."""


class Snapshotter(Sidecar):
    """Creates and deletes snapshots."""

    def add(self, *, contents_only: bool = False) -> list[Controller[Request]]:
        """Add the controllers of snapshots and contents to the manager."""

        def snapshot_of_content(content: VolumeSnapshotContent) -> Iterable[Request]:
            reference = content.spec.volume_snapshot_ref
            yield Request(reference.namespace or "", reference.name or "")

        def content_of_snapshot(snapshot: VolumeSnapshot) -> Iterable[Request]:
            if name := snapshot.status.bound_volume_snapshot_content_name:
                yield Request("", name)

        contents: ControllerBuilder[Request] = ControllerBuilder(
            self._manager, f"csi-snapshotter-{self._driver.name}"
        )
        added = [
            contents.for_(VolumeSnapshotContent)
            .watches(VolumeSnapshot, content_of_snapshot)
            .complete(self.reconcile_content)
        ]
        if not contents_only:
            snapshots: ControllerBuilder[Request] = ControllerBuilder(
                self._manager, f"snapshot-controller-{self._driver.name}"
            )
            snapshots.for_(VolumeSnapshot).watches(VolumeSnapshotContent, snapshot_of_content)
            added.append(snapshots.complete(self.reconcile_snapshot))
        return added

    # Snapshots of users

    async def reconcile_snapshot(self, snapshot: VolumeSnapshot) -> None:
        """Bind a snapshot to its content, and copy its state."""
        if snapshot.metadata.deletion_timestamp is not None:
            await self._delete_snapshot(snapshot)
            return
        name = snapshot.spec.source.volume_snapshot_content_name or f"snapcontent-{snapshot.metadata.uid}"
        content = await self._client.get_or_none(VolumeSnapshotContent, name)
        if content is None:
            if snapshot.spec.source.volume_snapshot_content_name is None:
                await self._create_content(snapshot, name)
            return
        if content.spec.driver != self._driver.name:
            return
        if add_finalizer(snapshot, BOUND):
            await self._client.update(snapshot)
        before = bool(snapshot.status.ready_to_use)
        _copy_status(snapshot, content)
        if has_changes(snapshot, part="status"):
            await self._client.update_status(snapshot)
        if snapshot.status.ready_to_use and not before:
            where = f"{snapshot.namespace}/{snapshot.name}"
            self._event(snapshot, "Normal", "SnapshotReady", f"Snapshot {where} is ready to use.")

    async def _create_content(self, snapshot: VolumeSnapshot, name: str) -> None:
        found = await self._class_of(snapshot)
        if found is None:
            return
        claim_name = snapshot.spec.source.persistent_volume_claim_name or ""
        claim = await self._client.get_or_none(
            PersistentVolumeClaim, claim_name, namespace=snapshot.namespace
        )
        volume_name = claim.spec.volume_name if claim is not None and claim.spec is not None else None
        volume = await self._client.get_or_none(PersistentVolume, volume_name) if volume_name else None
        if volume is None or driver_of(volume) != self._driver.name:
            message = (
                f"Failed to create snapshot content: claim {claim_name!r} has no volume of {found.driver}"
            )
            await self._fail_snapshot(snapshot, message)
            raise LookupError(message)
        assert volume.spec is not None
        assert volume.spec.csi is not None
        reference = ObjectReference(
            api_version="snapshot.storage.k8s.io/v1",
            kind="VolumeSnapshot",
            namespace=snapshot.namespace,
            name=snapshot.name,
            uid=snapshot.metadata.uid,
        )
        values = {
            "volumesnapshot.name": snapshot.name,
            "volumesnapshot.namespace": snapshot.namespace or "",
            "volumesnapshotcontent.name": name,
        }
        secret = secret_reference(found.parameters or {}, "snapshotter", values)
        annotations = (
            dict(zip(DELETION_SECRET, (secret.name or "", secret.namespace or ""), strict=True))
            if secret is not None
            else None
        )
        content = VolumeSnapshotContent(
            metadata=ObjectMeta(name=name, finalizers=[CONTENT_BOUND], annotations=annotations),
            spec=VolumeSnapshotContentSpec(
                driver=self._driver.name,
                deletion_policy=found.deletion_policy,
                source=VolumeSnapshotContentSource(volume_handle=volume.spec.csi.volume_handle),
                volume_snapshot_ref=reference,
                volume_snapshot_class_name=found.name,
            ),
        )
        where = f"{snapshot.namespace}/{snapshot.name}"
        text = f"Waiting for a snapshot {where} to be created by the CSI driver."
        self._event(snapshot, "Normal", "CreatingSnapshot", text)
        try:
            await self._client.create(content)
        except AlreadyExists:
            return

    async def _class_of(self, snapshot: VolumeSnapshot) -> VolumeSnapshotClass | None:
        """Return the class of a snapshot if it is of this driver."""
        name = snapshot.spec.volume_snapshot_class_name
        for each in await self._client.list(VolumeSnapshotClass):
            annotations = each.metadata.annotations or {}
            matches = each.name == name if name else annotations.get(DEFAULT_CLASS) == "true"
            if matches and each.driver == self._driver.name:
                return each
        return None

    async def _fail_snapshot(self, snapshot: VolumeSnapshot, message: str) -> None:
        snapshot.status.ready_to_use = False
        if snapshot.status.error is None or snapshot.status.error.message != message:
            snapshot.status.error = VolumeSnapshotError(message=message, time=now())
            await self._client.update_status(snapshot)
            self._event(snapshot, "Warning", "SnapshotContentCreationFailed", message)

    async def _delete_snapshot(self, snapshot: VolumeSnapshot) -> None:
        """Delete the content, unless its policy is Retain, and then the snapshot."""
        if not has_finalizer(snapshot, BOUND):
            return
        name = snapshot.status.bound_volume_snapshot_content_name or ""
        content = await self._client.get_or_none(VolumeSnapshotContent, name) if name else None
        if content is not None:
            if content.spec.driver != self._driver.name:
                return
            if content.spec.deletion_policy == "Delete":
                if content.metadata.deletion_timestamp is None:
                    await self._client.delete(content, missing_ok=True)
                return
        remove_finalizer(snapshot, BOUND)
        await self._client.update(snapshot)

    # Contents

    async def reconcile_content(self, content: VolumeSnapshotContent) -> Result | None:
        """Create the snapshot of a content, or delete it."""
        if content.spec.driver != self._driver.name:
            return None
        if content.metadata.deletion_timestamp is not None:
            await self._delete_content(content)
            return None
        if content.status.ready_to_use:
            return None
        try:
            snapshot = await self._find_or_create(content)
        except RPCError as error:
            message = f"Failed to check and update snapshot content: {error}"
            content.status.ready_to_use = False
            content.status.error = VolumeSnapshotError(message=message, time=now())
            await self._client.update_status(content)
            self._event(content, "Warning", "SnapshotCreationFailed", message)
            raise
        status = content.status
        status.snapshot_handle, status.ready_to_use = snapshot.snapshot_id, snapshot.ready_to_use
        status.restore_size, status.error = snapshot.size_bytes, None
        if snapshot.creation_time is not None:
            status.creation_time = snapshot.creation_time.seconds * 10**9 + snapshot.creation_time.nanos
        await self._client.update_status(content)
        return None if snapshot.ready_to_use else Result(requeue_after=READY_INTERVAL)

    async def _find_or_create(self, content: VolumeSnapshotContent) -> Snapshot:
        source = content.spec.source
        if source.snapshot_handle:
            request = ListSnapshotsRequest(snapshot_id=source.snapshot_handle)
            entries = (await self._driver.call(LIST_SNAPSHOTS, request)).entries
            if entries and entries[0].snapshot is not None:
                return entries[0].snapshot
            raise RPCError(f"snapshot {source.snapshot_handle} does not exist", code="NOT_FOUND")
        class_name = content.spec.volume_snapshot_class_name or ""
        found = await self._client.get_or_none(VolumeSnapshotClass, class_name) if class_name else None
        parameters = (found.parameters if found is not None else None) or {}
        reference = content.spec.volume_snapshot_ref
        values = {
            "volumesnapshot.name": reference.name or "",
            "volumesnapshot.namespace": reference.namespace or "",
            "volumesnapshotcontent.name": content.name,
        }
        secret = secret_reference(parameters, "snapshotter", values)
        created = await self._driver.call(
            CREATE_SNAPSHOT,
            CreateSnapshotRequest(
                source_volume_id=source.volume_handle or "",
                name=f"snapshot-{reference.uid}",
                secrets=await read_secret(self._client, secret),
                parameters={key: text for key, text in parameters.items() if not key.startswith(PREFIX)},
            ),
        )
        if created.snapshot is None:
            raise RPCError("the driver has returned no snapshot", code="INTERNAL")
        return created.snapshot

    async def _delete_content(self, content: VolumeSnapshotContent) -> None:
        if not has_finalizer(content, CONTENT_BOUND):
            return
        handle = content.status.snapshot_handle or content.spec.source.snapshot_handle
        if content.spec.deletion_policy == "Delete" and handle:
            annotations = content.metadata.annotations or {}
            name, namespace = (annotations.get(key, "") for key in DELETION_SECRET)
            parameters = {
                f"{PREFIX}deletion-secret-name": name,
                f"{PREFIX}deletion-secret-namespace": namespace,
            }
            secrets = await read_secret(self._client, secret_reference(parameters, "deletion", {}))
            request = DeleteSnapshotRequest(snapshot_id=handle, secrets=secrets)
            try:
                await self._driver.call(DELETE_SNAPSHOT, request)
            except RPCError as error:
                text = f"Failed to delete snapshot: {error}"
                self._event(content, "Warning", "SnapshotDeleteError", text)
                raise
        remove_finalizer(content, CONTENT_BOUND)
        await self._client.update(content)


def _copy_status(snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> None:
    status, source = snapshot.status, content.status
    status.bound_volume_snapshot_content_name = content.name
    status.ready_to_use = bool(source.ready_to_use)
    status.error = source.error
    if source.restore_size is not None:
        status.restore_size = Quantity(source.restore_size).with_format("BinarySI")
    if source.creation_time is not None:
        seconds = source.creation_time // 10**9
        status.creation_time = datetime.fromtimestamp(seconds, UTC)
