"""Messages of the Container Storage Interface, version 1.11.

Nested messages have names of their own: `MountVolume` is `VolumeCapability.MountVolume` of the specification.
Requests and responses without fields are `Empty`.

Written by tools/generate_csi_messages.py; change that instead.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from kubewright.node.messages import Message


class PluginService(IntEnum):
    """Optional services of a driver."""

    CONTROLLER_SERVICE = 1
    VOLUME_ACCESSIBILITY_CONSTRAINTS = 2
    GROUP_CONTROLLER_SERVICE = 3
    SNAPSHOT_METADATA_SERVICE = 4


class VolumeExpansion(IntEnum):
    """When volumes can be expanded."""

    ONLINE = 1
    OFFLINE = 2


class AccessMode(IntEnum):
    """How many nodes and pods can use a volume."""

    SINGLE_NODE_WRITER = 1
    SINGLE_NODE_READER_ONLY = 2
    MULTI_NODE_READER_ONLY = 3
    MULTI_NODE_SINGLE_WRITER = 4
    MULTI_NODE_MULTI_WRITER = 5
    SINGLE_NODE_SINGLE_WRITER = 6
    SINGLE_NODE_MULTI_WRITER = 7


class ControllerCall(IntEnum):
    """Optional calls of the controller service."""

    CREATE_DELETE_VOLUME = 1
    PUBLISH_UNPUBLISH_VOLUME = 2
    LIST_VOLUMES = 3
    GET_CAPACITY = 4
    CREATE_DELETE_SNAPSHOT = 5
    LIST_SNAPSHOTS = 6
    CLONE_VOLUME = 7
    PUBLISH_READONLY = 8
    EXPAND_VOLUME = 9
    LIST_VOLUMES_PUBLISHED_NODES = 10
    VOLUME_CONDITION = 11
    GET_VOLUME = 12
    SINGLE_NODE_MULTI_WRITER = 13
    MODIFY_VOLUME = 14


class NodeCall(IntEnum):
    """Optional calls of the node service."""

    STAGE_UNSTAGE_VOLUME = 1
    GET_VOLUME_STATS = 2
    EXPAND_VOLUME = 3
    VOLUME_CONDITION = 4
    SINGLE_NODE_MULTI_WRITER = 5
    VOLUME_MOUNT_GROUP = 6


class UsageUnit(IntEnum):
    """Unit of a `VolumeUsage`."""

    BYTES = 1
    INODES = 2


class GetPluginInfoResponse(Message):
    """Name and version of a driver."""

    name: Annotated[str, 1] = ""
    vendor_version: Annotated[str, 2] = ""
    manifest: Annotated[dict[str, str], 3] = {}


class ServiceCapability(Message):
    """An optional service of a driver (`PluginService`)."""

    type: Annotated[int, 1] = 0


class VolumeExpansionCapability(Message):
    """When volumes can be expanded (`VolumeExpansion`)."""

    type: Annotated[int, 1] = 0


class PluginCapability(Message):
    """One capability: either field is set."""

    service: Annotated[ServiceCapability | None, 1] = None
    volume_expansion: Annotated[VolumeExpansionCapability | None, 2] = None


class GetPluginCapabilitiesResponse(Message):
    """Capabilities of a driver."""

    capabilities: Annotated[list[PluginCapability], 1] = []


class BoolValue(Message):
    """A boolean that can be absent."""

    value: Annotated[bool, 1] = False


class Int64Value(Message):
    """An integer that can be absent."""

    value: Annotated[int, 1] = 0


class ProbeResponse(Message):
    """Whether a driver is ready; absent means ready."""

    ready: Annotated[BoolValue | None, 1] = None


class Timestamp(Message):
    """A time since 1970."""

    seconds: Annotated[int, 1] = 0
    nanos: Annotated[int, 2] = 0


class BlockVolume(Message):
    """Access to a volume as a block device."""


class MountVolume(Message):
    """Access to a volume as a file system."""

    fs_type: Annotated[str, 1] = ""
    mount_flags: Annotated[list[str], 2] = []
    volume_mount_group: Annotated[str, 3] = ""


class AccessModeCapability(Message):
    """An `AccessMode`."""

    mode: Annotated[int, 1] = 0


class VolumeCapability(Message):
    """How a volume is used: `block` or `mount` is set."""

    block: Annotated[BlockVolume | None, 1] = None
    mount: Annotated[MountVolume | None, 2] = None
    access_mode: Annotated[AccessModeCapability | None, 3] = None


class CapacityRange(Message):
    """A requested size in bytes; 0 means unlimited."""

    required_bytes: Annotated[int, 1] = 0
    limit_bytes: Annotated[int, 2] = 0


class SnapshotSource(Message):
    """A snapshot that a volume is created from."""

    snapshot_id: Annotated[str, 1] = ""


class VolumeSource(Message):
    """A volume that another one is created from."""

    volume_id: Annotated[str, 1] = ""


class VolumeContentSource(Message):
    """What a volume is created from: either field is set."""

    snapshot: Annotated[SnapshotSource | None, 1] = None
    volume: Annotated[VolumeSource | None, 2] = None


class Topology(Message):
    """A part of the cluster, as labels."""

    segments: Annotated[dict[str, str], 1] = {}


class TopologyRequirement(Message):
    """Where a volume has to be accessible, and where preferably."""

    requisite: Annotated[list[Topology], 1] = []
    preferred: Annotated[list[Topology], 2] = []


class Volume(Message):
    """A volume."""

    capacity_bytes: Annotated[int, 1] = 0
    volume_id: Annotated[str, 2] = ""
    volume_context: Annotated[dict[str, str], 3] = {}
    content_source: Annotated[VolumeContentSource | None, 4] = None
    accessible_topology: Annotated[list[Topology], 5] = []


class CreateVolumeRequest(Message):
    """A volume to create; a repeated request has the same name."""

    name: Annotated[str, 1] = ""
    capacity_range: Annotated[CapacityRange | None, 2] = None
    volume_capabilities: Annotated[list[VolumeCapability], 3] = []
    parameters: Annotated[dict[str, str], 4] = {}
    secrets: Annotated[dict[str, str], 5] = {}
    volume_content_source: Annotated[VolumeContentSource | None, 6] = None
    accessibility_requirements: Annotated[TopologyRequirement | None, 7] = None
    mutable_parameters: Annotated[dict[str, str], 8] = {}


class CreateVolumeResponse(Message):
    """The created volume."""

    volume: Annotated[Volume | None, 1] = None


class DeleteVolumeRequest(Message):
    """A volume to delete."""

    volume_id: Annotated[str, 1] = ""
    secrets: Annotated[dict[str, str], 2] = {}


class ControllerPublishVolumeRequest(Message):
    """A volume to attach to a node."""

    volume_id: Annotated[str, 1] = ""
    node_id: Annotated[str, 2] = ""
    volume_capability: Annotated[VolumeCapability | None, 3] = None
    readonly: Annotated[bool, 4] = False
    secrets: Annotated[dict[str, str], 5] = {}
    volume_context: Annotated[dict[str, str], 6] = {}


class ControllerPublishVolumeResponse(Message):
    """What the node needs to use the volume."""

    publish_context: Annotated[dict[str, str], 1] = {}


class ControllerUnpublishVolumeRequest(Message):
    """A volume to detach from a node."""

    volume_id: Annotated[str, 1] = ""
    node_id: Annotated[str, 2] = ""
    secrets: Annotated[dict[str, str], 3] = {}


class ValidateVolumeCapabilitiesRequest(Message):
    """Capabilities to check for a volume."""

    volume_id: Annotated[str, 1] = ""
    volume_context: Annotated[dict[str, str], 2] = {}
    volume_capabilities: Annotated[list[VolumeCapability], 3] = []
    parameters: Annotated[dict[str, str], 4] = {}
    secrets: Annotated[dict[str, str], 5] = {}
    mutable_parameters: Annotated[dict[str, str], 6] = {}


class ConfirmedCapabilities(Message):
    """Capabilities that a volume has."""

    volume_context: Annotated[dict[str, str], 1] = {}
    volume_capabilities: Annotated[list[VolumeCapability], 2] = []
    parameters: Annotated[dict[str, str], 3] = {}
    mutable_parameters: Annotated[dict[str, str], 4] = {}


class ValidateVolumeCapabilitiesResponse(Message):
    """`confirmed` is set if all capabilities are supported."""

    confirmed: Annotated[ConfirmedCapabilities | None, 1] = None
    message: Annotated[str, 2] = ""


class VolumeCondition(Message):
    """Whether a volume is damaged."""

    abnormal: Annotated[bool, 1] = False
    message: Annotated[str, 2] = ""


class VolumeStatus(Message):
    """Nodes that a volume is attached to, and its condition."""

    published_node_ids: Annotated[list[str], 1] = []
    volume_condition: Annotated[VolumeCondition | None, 2] = None


class ListVolumesRequest(Message):
    """A page of volumes."""

    max_entries: Annotated[int, 1] = 0
    starting_token: Annotated[str, 2] = ""


class VolumeEntry(Message):
    """A volume in a list."""

    volume: Annotated[Volume | None, 1] = None
    status: Annotated[VolumeStatus | None, 2] = None


class ListVolumesResponse(Message):
    """A page of volumes, and the token of the next one."""

    entries: Annotated[list[VolumeEntry], 1] = []
    next_token: Annotated[str, 2] = ""


class ControllerGetVolumeRequest(Message):
    """A volume to read."""

    volume_id: Annotated[str, 1] = ""


class ControllerGetVolumeResponse(Message):
    """A volume and its status."""

    volume: Annotated[Volume | None, 1] = None
    status: Annotated[VolumeStatus | None, 2] = None


class ControllerModifyVolumeRequest(Message):
    """Parameters to change."""

    volume_id: Annotated[str, 1] = ""
    secrets: Annotated[dict[str, str], 2] = {}
    mutable_parameters: Annotated[dict[str, str], 3] = {}


class GetCapacityRequest(Message):
    """What capacity is needed for."""

    volume_capabilities: Annotated[list[VolumeCapability], 1] = []
    parameters: Annotated[dict[str, str], 2] = {}
    accessible_topology: Annotated[Topology | None, 3] = None


class GetCapacityResponse(Message):
    """Available bytes, and the limits of one volume."""

    available_capacity: Annotated[int, 1] = 0
    maximum_volume_size: Annotated[Int64Value | None, 2] = None
    minimum_volume_size: Annotated[Int64Value | None, 3] = None


class ControllerCapability(Message):
    """A call that the controller service implements (`ControllerCall`)."""

    type: Annotated[int, 1] = 0


class ControllerServiceCapability(Message):
    """One capability of the controller service."""

    rpc: Annotated[ControllerCapability | None, 1] = None


class ControllerGetCapabilitiesResponse(Message):
    """Capabilities of the controller service."""

    capabilities: Annotated[list[ControllerServiceCapability], 1] = []


class Snapshot(Message):
    """A snapshot of a volume."""

    size_bytes: Annotated[int, 1] = 0
    snapshot_id: Annotated[str, 2] = ""
    source_volume_id: Annotated[str, 3] = ""
    creation_time: Annotated[Timestamp | None, 4] = None
    ready_to_use: Annotated[bool, 5] = False
    group_snapshot_id: Annotated[str, 6] = ""


class CreateSnapshotRequest(Message):
    """A snapshot to create; a repeated request has the same name."""

    source_volume_id: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""
    secrets: Annotated[dict[str, str], 3] = {}
    parameters: Annotated[dict[str, str], 4] = {}


class CreateSnapshotResponse(Message):
    """The created snapshot."""

    snapshot: Annotated[Snapshot | None, 1] = None


class DeleteSnapshotRequest(Message):
    """A snapshot to delete."""

    snapshot_id: Annotated[str, 1] = ""
    secrets: Annotated[dict[str, str], 2] = {}


class ListSnapshotsRequest(Message):
    """A page of snapshots, of one volume or one snapshot if set."""

    max_entries: Annotated[int, 1] = 0
    starting_token: Annotated[str, 2] = ""
    source_volume_id: Annotated[str, 3] = ""
    snapshot_id: Annotated[str, 4] = ""
    secrets: Annotated[dict[str, str], 5] = {}


class SnapshotEntry(Message):
    """A snapshot in a list."""

    snapshot: Annotated[Snapshot | None, 1] = None


class ListSnapshotsResponse(Message):
    """A page of snapshots, and the token of the next one."""

    entries: Annotated[list[SnapshotEntry], 1] = []
    next_token: Annotated[str, 2] = ""


class ControllerExpandVolumeRequest(Message):
    """A volume to expand."""

    volume_id: Annotated[str, 1] = ""
    capacity_range: Annotated[CapacityRange | None, 2] = None
    secrets: Annotated[dict[str, str], 3] = {}
    volume_capability: Annotated[VolumeCapability | None, 4] = None


class ControllerExpandVolumeResponse(Message):
    """The new size, and whether the node has to expand the file system."""

    capacity_bytes: Annotated[int, 1] = 0
    node_expansion_required: Annotated[bool, 2] = False


class NodeStageVolumeRequest(Message):
    """A volume to prepare on a node, once for all pods."""

    volume_id: Annotated[str, 1] = ""
    publish_context: Annotated[dict[str, str], 2] = {}
    staging_target_path: Annotated[str, 3] = ""
    volume_capability: Annotated[VolumeCapability | None, 4] = None
    secrets: Annotated[dict[str, str], 5] = {}
    volume_context: Annotated[dict[str, str], 6] = {}


class NodeUnstageVolumeRequest(Message):
    """A volume that no pod of a node uses any more."""

    volume_id: Annotated[str, 1] = ""
    staging_target_path: Annotated[str, 2] = ""


class NodePublishVolumeRequest(Message):
    """A volume to mount at the path of a pod."""

    volume_id: Annotated[str, 1] = ""
    publish_context: Annotated[dict[str, str], 2] = {}
    staging_target_path: Annotated[str, 3] = ""
    target_path: Annotated[str, 4] = ""
    volume_capability: Annotated[VolumeCapability | None, 5] = None
    readonly: Annotated[bool, 6] = False
    secrets: Annotated[dict[str, str], 7] = {}
    volume_context: Annotated[dict[str, str], 8] = {}


class NodeUnpublishVolumeRequest(Message):
    """A volume to unmount from the path of a pod."""

    volume_id: Annotated[str, 1] = ""
    target_path: Annotated[str, 2] = ""


class NodeGetVolumeStatsRequest(Message):
    """A mounted volume."""

    volume_id: Annotated[str, 1] = ""
    volume_path: Annotated[str, 2] = ""
    staging_target_path: Annotated[str, 3] = ""


class VolumeUsage(Message):
    """Usage in bytes or inodes (`UsageUnit`)."""

    available: Annotated[int, 1] = 0
    total: Annotated[int, 2] = 0
    used: Annotated[int, 3] = 0
    unit: Annotated[int, 4] = 0


class NodeGetVolumeStatsResponse(Message):
    """Usage and condition of a volume."""

    usage: Annotated[list[VolumeUsage], 1] = []
    volume_condition: Annotated[VolumeCondition | None, 2] = None


class NodeCapability(Message):
    """A call that the node service implements (`NodeCall`)."""

    type: Annotated[int, 1] = 0


class NodeServiceCapability(Message):
    """One capability of the node service."""

    rpc: Annotated[NodeCapability | None, 1] = None


class NodeGetCapabilitiesResponse(Message):
    """Capabilities of the node service."""

    capabilities: Annotated[list[NodeServiceCapability], 1] = []


class NodeGetInfoResponse(Message):
    """The name of the node for the driver, and its limits."""

    node_id: Annotated[str, 1] = ""
    max_volumes_per_node: Annotated[int, 2] = 0
    accessible_topology: Annotated[Topology | None, 3] = None


class NodeExpandVolumeRequest(Message):
    """A volume whose file system is to be expanded."""

    volume_id: Annotated[str, 1] = ""
    volume_path: Annotated[str, 2] = ""
    capacity_range: Annotated[CapacityRange | None, 3] = None
    staging_target_path: Annotated[str, 4] = ""
    volume_capability: Annotated[VolumeCapability | None, 5] = None
    secrets: Annotated[dict[str, str], 6] = {}


class NodeExpandVolumeResponse(Message):
    """The new size."""

    capacity_bytes: Annotated[int, 1] = 0
