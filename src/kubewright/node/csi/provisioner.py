"""Creation and deletion of volumes for claims, as the external-provisioner does.

Permissions: get, list, watch and patch of PersistentVolumeClaims; get, list, watch, create, delete and patch
of PersistentVolumes; get, list and watch of StorageClasses, VolumeAttachments, CSINodes and Nodes; get of
Secrets, VolumeSnapshots and VolumeSnapshotContents; create and patch of Events.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kubewright.api.core.v1 import (
    CSIPersistentVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    SecretReference,
    VolumeNodeAffinity,
)
from kubewright.api.errors import AlreadyExists
from kubewright.api.finalizers import has_finalizer, remove_finalizer
from kubewright.api.meta import ObjectMeta, ObjectReference
from kubewright.api.storage.v1 import CSINode, StorageClass, VolumeAttachment
from kubewright.api.values.quantity import Quantity
from kubewright.controller import Controller, ControllerBuilder, Request, Result, TemporaryError
from kubewright.node.errors import InvalidArgument, ResourceExhausted, RPCError

from .messages import (
    CapacityRange,
    ControllerCall,
    CreateVolumeRequest,
    DeleteVolumeRequest,
    SnapshotSource,
    Topology,
    TopologyRequirement,
    Volume,
    VolumeContentSource,
    VolumeSource,
)
from .services import CREATE_VOLUME, DELETE_VOLUME
from .sidecar import PROVISIONED_BY, SELECTED_NODE, Sidecar
from .snapshot_types import GROUP, VolumeSnapshot, VolumeSnapshotContent
from .volumes import (
    FS_TYPE,
    PREFIX,
    driver_of,
    read_secret,
    requested_bytes,
    secret_reference,
    volume_capability,
)

logger = logging.getLogger(__name__)

FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
STORAGE_PROVISIONER: Final = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
DELETION_SECRET: Final = (
    "volume.kubernetes.io/provisioner-deletion-secret-name",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace",
)
IDENTITY: Final = "storage.kubernetes.io/csiProvisionerIdentity"
ATTACHED_RETRY: Final = 1.0
SOURCE_RETRY: Final = 1.0
"""Seconds between checks whether the snapshot or the claim that a volume is created from is ready."""


class Provisioner(Sidecar):
    """Creates volumes for claims, and deletes released volumes."""

    def add(self) -> list[Controller[Request]]:
        """Add the controllers of claims and of volumes to the manager."""

        async def claims_of_class(storage_class: StorageClass) -> Iterable[Request]:
            if storage_class.provisioner != self._driver.name:
                return ()
            claims = await self._client.list(PersistentVolumeClaim)
            return [Request.of(claim) for claim in claims if self._is_pending(claim)]

        claims: ControllerBuilder[Request] = ControllerBuilder(
            self._manager, f"csi-provisioner-{self._driver.name}"
        )
        volumes: ControllerBuilder[Request] = ControllerBuilder(
            self._manager, f"csi-deleter-{self._driver.name}"
        )
        return [
            claims.for_(PersistentVolumeClaim)
            .watches(StorageClass, claims_of_class)
            .complete(self.reconcile_claim),
            volumes.for_(PersistentVolume).complete(self.reconcile_volume),
        ]

    # Creation

    def _is_pending(self, claim: PersistentVolumeClaim) -> bool:
        annotations = claim.metadata.annotations or {}
        return (
            claim.metadata.deletion_timestamp is None
            and claim.spec is not None
            and not claim.spec.volume_name
            and any(annotations.get(key) == self._driver.name for key in STORAGE_PROVISIONER)
        )

    async def reconcile_claim(self, claim: PersistentVolumeClaim) -> None:
        """Create the volume of a claim that waits for this driver."""
        if not self._is_pending(claim):
            return
        assert claim.spec is not None
        name = f"pvc-{claim.metadata.uid}"
        class_name = claim.spec.storage_class_name or ""
        storage_class = await self._client.get_or_none(StorageClass, class_name)
        if storage_class is None or storage_class.provisioner != self._driver.name:
            return
        node = (claim.metadata.annotations or {}).get(SELECTED_NODE, "")
        if storage_class.volume_binding_mode == "WaitForFirstConsumer" and not node:
            return
        if await self._client.get_or_none(PersistentVolume, name) is not None:
            return
        where = f'"{claim.namespace}/{claim.name}"'
        self._event(
            claim, "Normal", "Provisioning", f"External provisioner is provisioning volume for claim {where}"
        )
        try:
            await self._provision(claim, storage_class, name, node)
        except (RPCError, LookupError) as error:
            text = f'failed to provision volume with StorageClass "{class_name}": {error}'
            self._event(claim, "Warning", "ProvisioningFailed", text)
            if isinstance(error, ResourceExhausted) and node:
                # Another node may have space: the scheduler chooses again.
                assert claim.metadata.annotations is not None
                del claim.metadata.annotations[SELECTED_NODE]
                await self._client.update(claim)
            if isinstance(error, LookupError):
                raise TemporaryError(str(error), delay=SOURCE_RETRY) from None
            raise
        self._event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    async def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, name: str, node: str
    ) -> None:
        assert claim.spec is not None
        parameters = storage_class.parameters or {}
        values = {
            "pvc.name": claim.name,
            "pvc.namespace": claim.namespace or "",
            "pv.name": name,
            **{f"pvc.annotations['{key}']": text for key, text in (claim.metadata.annotations or {}).items()},
        }
        secret = secret_reference(parameters, "provisioner", values)
        source = await self._content_source(claim)
        request = CreateVolumeRequest(
            name=name,
            capacity_range=CapacityRange(required_bytes=requested_bytes(claim)),
            volume_capabilities=[
                volume_capability(
                    mode,
                    volume_mode=claim.spec.volume_mode,
                    fs_type=parameters.get(FS_TYPE, ""),
                    mount_options=storage_class.mount_options or (),
                    separates_writers=self._separates_writers,
                )
                for mode in claim.spec.access_modes or ()
            ],
            parameters={key: text for key, text in parameters.items() if not key.startswith(PREFIX)},
            secrets=await read_secret(self._client, secret),
            volume_content_source=source,
            accessibility_requirements=await self._topology(node),
        )
        response = await self._driver.call(CREATE_VOLUME, request)
        volume = response.volume
        if volume is None or not volume.volume_id:
            raise InvalidArgument("the driver has returned a volume without an ID")
        if volume.capacity_bytes and volume.capacity_bytes < requested_bytes(claim):
            await self._driver.call(DELETE_VOLUME, DeleteVolumeRequest(volume_id=volume.volume_id))
            raise InvalidArgument(
                f"created volume capacity {volume.capacity_bytes} less than requested capacity "
                f"{requested_bytes(claim)}"
            )
        wanted = self._volume(claim, storage_class, name, volume, values, secret)
        try:
            await self._client.create(wanted)
        except AlreadyExists:
            return

    def _volume(
        self,
        claim: PersistentVolumeClaim,
        storage_class: StorageClass,
        name: str,
        volume: Volume,
        values: dict[str, str],
        secret: SecretReference | None,
    ) -> PersistentVolume:
        assert claim.spec is not None
        parameters = storage_class.parameters or {}
        annotations = {PROVISIONED_BY: self._driver.name}
        if secret is not None:
            annotations.update(zip(DELETION_SECRET, (secret.name or "", secret.namespace or ""), strict=True))
        policy = storage_class.reclaim_policy or "Delete"
        terms = [_term(topology) for topology in volume.accessible_topology if topology.segments]
        affinity = NodeSelector(node_selector_terms=terms)
        size = volume.capacity_bytes or requested_bytes(claim)
        return PersistentVolume(
            metadata=ObjectMeta(
                name=name, annotations=annotations, finalizers=[FINALIZER] if policy == "Delete" else None
            ),
            spec=PersistentVolumeSpec(
                access_modes=claim.spec.access_modes,
                capacity={"storage": Quantity(size).with_format("BinarySI")},
                claim_ref=ObjectReference(
                    api_version="v1",
                    kind="PersistentVolumeClaim",
                    namespace=claim.namespace,
                    name=claim.name,
                    uid=claim.metadata.uid,
                    resource_version=claim.metadata.resource_version,
                ),
                csi=CSIPersistentVolumeSource(
                    driver=self._driver.name,
                    volume_handle=volume.volume_id,
                    fs_type=parameters.get(FS_TYPE),
                    volume_attributes={**volume.volume_context, IDENTITY: self._driver.name},
                    controller_publish_secret_ref=secret_reference(parameters, "controller-publish", values),
                    node_stage_secret_ref=secret_reference(parameters, "node-stage", values),
                    node_publish_secret_ref=secret_reference(parameters, "node-publish", values),
                    controller_expand_secret_ref=secret_reference(parameters, "controller-expand", values),
                    node_expand_secret_ref=secret_reference(parameters, "node-expand", values),
                ),
                mount_options=storage_class.mount_options,
                node_affinity=VolumeNodeAffinity(required=affinity) if terms else None,
                persistent_volume_reclaim_policy=policy,
                storage_class_name=storage_class.name,
                volume_mode=claim.spec.volume_mode,
            ),
        )

    async def _content_source(self, claim: PersistentVolumeClaim) -> VolumeContentSource | None:
        """Return the snapshot or the volume that a claim is created from."""
        assert claim.spec is not None
        source = claim.spec.data_source_ref or claim.spec.data_source
        if source is None:
            return None
        if source.kind == "VolumeSnapshot" and source.api_group == GROUP:
            return await self._snapshot_source(claim, source.name or "")
        if source.kind == "PersistentVolumeClaim" and not source.api_group:
            return await self._claim_source(claim, source.name or "")
        raise InvalidArgument(
            f"the data source {source.kind} {source.name} is not supported; expected a VolumeSnapshot or a "
            "PersistentVolumeClaim"
        )

    async def _snapshot_source(self, claim: PersistentVolumeClaim, name: str) -> VolumeContentSource:
        if not self._driver.supports(ControllerCall.CREATE_DELETE_SNAPSHOT):
            raise InvalidArgument(f"the driver {self._driver.name} does not support snapshots")
        uncached = self._client.uncached
        snapshot = await uncached.get_or_none(VolumeSnapshot, name, namespace=claim.namespace)
        if snapshot is None:
            raise LookupError(f"snapshot {name} not found")
        status = snapshot.status
        if not status.ready_to_use or not status.bound_volume_snapshot_content_name:
            raise LookupError(f"snapshot {name} is not Ready")
        content = await uncached.get(VolumeSnapshotContent, status.bound_volume_snapshot_content_name)
        if content.spec.driver != self._driver.name:
            raise InvalidArgument(f"snapshot {name} is of the driver {content.spec.driver}")
        size = content.status.restore_size or 0
        if requested_bytes(claim) < size:
            raise InvalidArgument(
                f"requested volume size {requested_bytes(claim)} is less than the size {size} for the source "
                f"snapshot {name}"
            )
        return VolumeContentSource(snapshot=SnapshotSource(snapshot_id=content.status.snapshot_handle or ""))

    async def _claim_source(self, claim: PersistentVolumeClaim, name: str) -> VolumeContentSource:
        if not self._driver.supports(ControllerCall.CLONE_VOLUME):
            raise InvalidArgument(f"the driver {self._driver.name} does not support cloning")
        source = await self._client.get_or_none(PersistentVolumeClaim, name, namespace=claim.namespace)
        if source is None:
            raise LookupError(f"claim {name} not found")
        volume_name = source.spec.volume_name if source.spec is not None else None
        volume = await self._client.get_or_none(PersistentVolume, volume_name) if volume_name else None
        if volume is None or driver_of(volume) != self._driver.name:
            raise LookupError(f"claim {name} has no volume of the driver {self._driver.name}")
        if requested_bytes(claim) < requested_bytes(source):
            raise InvalidArgument(f"the requested size is less than that of the source claim {name}")
        assert volume.spec is not None
        assert volume.spec.csi is not None
        return VolumeContentSource(volume=VolumeSource(volume_id=volume.spec.csi.volume_handle or ""))

    async def _topology(self, selected: str) -> TopologyRequirement | None:
        """Return where the volume has to be accessible: on the selected node, or on some node."""
        if not self._driver.has_topology:
            return None
        found: list[Topology] = []
        for node in await self._client.list(CSINode):
            drivers = (node.spec.drivers if node.spec is not None else None) or ()
            keys = next((each.topology_keys for each in drivers if each.name == self._driver.name), None)
            if not keys or selected not in ("", node.name):
                continue
            labels = (await self._client.get(Node, node.name)).metadata.labels or {}
            topology = Topology(segments={key: labels[key] for key in keys if key in labels})
            if topology not in found:
                found.append(topology)
        return TopologyRequirement(requisite=found, preferred=found)

    # Deletion

    async def reconcile_volume(self, volume: PersistentVolume) -> Result | None:
        """Delete a released volume."""
        annotations = volume.metadata.annotations or {}
        if driver_of(volume) != self._driver.name or annotations.get(PROVISIONED_BY) != self._driver.name:
            return None
        assert volume.spec is not None
        phase = volume.status.phase if volume.status is not None else None
        if volume.spec.persistent_volume_reclaim_policy != "Delete":
            if has_finalizer(volume, FINALIZER):
                remove_finalizer(volume, FINALIZER)
                await self._client.update(volume)
            return None
        deleting = volume.metadata.deletion_timestamp is not None
        if phase != "Released" or (deleting and not has_finalizer(volume, FINALIZER)):
            return None
        if node := await self._attached_node(volume.name):
            text = f"persistentvolume {volume.name} is still attached to node {node}"
            self._event(volume, "Warning", "VolumeFailedDelete", text)
            return Result(requeue_after=ATTACHED_RETRY)
        name, namespace = (annotations.get(key) for key in DELETION_SECRET)
        reference = SecretReference(name=name, namespace=namespace) if name and namespace else None
        assert volume.spec.csi is not None
        request = DeleteVolumeRequest(
            volume_id=volume.spec.csi.volume_handle or "", secrets=await read_secret(self._client, reference)
        )
        try:
            await self._driver.call(DELETE_VOLUME, request)
        except RPCError as error:
            self._event(volume, "Warning", "VolumeFailedDelete", str(error))
            raise
        if not deleting:
            await self._client.delete(volume, missing_ok=True)
        current = await self._client.uncached.get_or_none(PersistentVolume, volume.name)
        if current is not None and remove_finalizer(current, FINALIZER):
            await self._client.uncached.update(current)
        return None

    async def _attached_node(self, volume: str) -> str:
        for attachment in await self._client.list(VolumeAttachment):
            spec = attachment.spec
            if spec is not None and spec.source is not None and spec.source.persistent_volume_name == volume:
                return spec.node_name or ""
        return ""


def _term(topology: Topology) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[
            NodeSelectorRequirement(key=key, operator="In", values=[value])
            for key, value in sorted(topology.segments.items())
        ]
    )
