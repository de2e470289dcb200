"""Kinds of `snapshot.storage.k8s.io/v1`: the fields that the controllers of this package use.

A cluster that has the CRDs of the snapshot project needs no others; these are for clusters without.
"""

from __future__ import annotations

from typing import Annotated, Literal

from kubewright.api.declaring.declarations import Column, resource
from kubewright.api.markers import Cel
from kubewright.api.meta import CustomResource, MetaObject, ObjectReference
from kubewright.api.objects import Spec, Status
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import Time

GROUP = "snapshot.storage.k8s.io"
_APPROVAL = {"api-approved.kubernetes.io": "unapproved, a subset of the kinds of the external-snapshotter"}
DeletionPolicy = Literal["Delete", "Retain"]


class VolumeSnapshotError(Spec):
    """Why a snapshot could not be created."""

    message: str | None = None
    time: Time | None = None


@resource(
    group=GROUP,
    version="v1",
    scope="Cluster",
    plural="volumesnapshotclasses",
    short_names=("vsclass", "vsclasses"),
    annotations=_APPROVAL,
    columns=(
        Column("Driver", ".driver"),
        Column("DeletionPolicy", ".deletionPolicy"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class VolumeSnapshotClass(MetaObject):
    """A driver and its parameters for snapshots."""

    driver: str
    deletion_policy: DeletionPolicy
    parameters: dict[str, str] | None = None


class VolumeSnapshotSource(Spec):
    """A claim to take a snapshot of, or existing content."""

    persistent_volume_claim_name: str | None = None
    volume_snapshot_content_name: str | None = None


class VolumeSnapshotSpec(Spec):
    """Desired snapshot."""

    source: Annotated[
        VolumeSnapshotSource,
        Cel(
            "has(self.persistentVolumeClaimName) != has(self.volumeSnapshotContentName)",
            message="exactly one of persistentVolumeClaimName and volumeSnapshotContentName is required",
        ),
    ]
    volume_snapshot_class_name: str | None = None


class VolumeSnapshotStatus(Status):
    """State of a snapshot."""

    bound_volume_snapshot_content_name: str | None = None
    creation_time: Time | None = None
    ready_to_use: bool | None = None
    restore_size: Quantity | None = None
    error: VolumeSnapshotError | None = None


@resource(
    group=GROUP,
    version="v1",
    short_names=("vs",),
    annotations=_APPROVAL,
    columns=(
        Column("ReadyToUse", ".status.readyToUse", "boolean"),
        Column("SourcePVC", ".spec.source.persistentVolumeClaimName"),
        Column("RestoreSize", ".status.restoreSize"),
        Column("SnapshotClass", ".spec.volumeSnapshotClassName"),
        Column("SnapshotContent", ".status.boundVolumeSnapshotContentName"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class VolumeSnapshot(CustomResource[VolumeSnapshotSpec, VolumeSnapshotStatus]):
    """A snapshot of a volume, requested by a user."""


class VolumeSnapshotContentSource(Spec):
    """A volume to take a snapshot of, or an existing snapshot, by their names for the driver."""

    volume_handle: str | None = None
    snapshot_handle: str | None = None


class VolumeSnapshotContentSpec(Spec):
    """Desired content."""

    driver: str
    deletion_policy: DeletionPolicy
    source: VolumeSnapshotContentSource
    volume_snapshot_ref: ObjectReference
    volume_snapshot_class_name: str | None = None


class VolumeSnapshotContentStatus(Status):
    """State of the snapshot in the storage; the time is in nanoseconds since 1970."""

    snapshot_handle: str | None = None
    creation_time: int | None = None
    ready_to_use: bool | None = None
    restore_size: int | None = None
    error: VolumeSnapshotError | None = None


@resource(
    group=GROUP,
    version="v1",
    scope="Cluster",
    short_names=("vsc", "vscs"),
    annotations=_APPROVAL,
    columns=(
        Column("ReadyToUse", ".status.readyToUse", "boolean"),
        Column("RestoreSize", ".status.restoreSize", "integer"),
        Column("DeletionPolicy", ".spec.deletionPolicy"),
        Column("Driver", ".spec.driver"),
        Column("VolumeSnapshot", ".spec.volumeSnapshotRef.name"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class VolumeSnapshotContent(CustomResource[VolumeSnapshotContentSpec, VolumeSnapshotContentStatus]):
    """A snapshot in the storage."""


SNAPSHOT_KINDS = (VolumeSnapshotClass, VolumeSnapshotContent, VolumeSnapshot)
"""The kinds, for `install_definitions`."""
