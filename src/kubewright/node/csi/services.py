"""Services of the Container Storage Interface: their calls, by the name of the service.

Written by tools/generate_csi_messages.py; change that instead.
"""

from __future__ import annotations

from typing import Final

from kubewright.node.messages import Empty
from kubewright.node.rpc import Method, Service

from . import messages as m

GET_PLUGIN_INFO: Final = Method("GetPluginInfo", Empty, m.GetPluginInfoResponse)
GET_PLUGIN_CAPABILITIES: Final = Method("GetPluginCapabilities", Empty, m.GetPluginCapabilitiesResponse)
PROBE: Final = Method("Probe", Empty, m.ProbeResponse)
IDENTITY: Final = Service("csi.v1.Identity", GET_PLUGIN_INFO, GET_PLUGIN_CAPABILITIES, PROBE)

CREATE_VOLUME: Final = Method("CreateVolume", m.CreateVolumeRequest, m.CreateVolumeResponse)
DELETE_VOLUME: Final = Method("DeleteVolume", m.DeleteVolumeRequest, Empty)
CONTROLLER_PUBLISH_VOLUME: Final = Method(
    "ControllerPublishVolume", m.ControllerPublishVolumeRequest, m.ControllerPublishVolumeResponse
)
CONTROLLER_UNPUBLISH_VOLUME: Final = Method(
    "ControllerUnpublishVolume", m.ControllerUnpublishVolumeRequest, Empty
)
VALIDATE_VOLUME_CAPABILITIES: Final = Method(
    "ValidateVolumeCapabilities", m.ValidateVolumeCapabilitiesRequest, m.ValidateVolumeCapabilitiesResponse
)
LIST_VOLUMES: Final = Method("ListVolumes", m.ListVolumesRequest, m.ListVolumesResponse)
GET_CAPACITY: Final = Method("GetCapacity", m.GetCapacityRequest, m.GetCapacityResponse)
CONTROLLER_GET_CAPABILITIES: Final = Method(
    "ControllerGetCapabilities", Empty, m.ControllerGetCapabilitiesResponse
)
CREATE_SNAPSHOT: Final = Method("CreateSnapshot", m.CreateSnapshotRequest, m.CreateSnapshotResponse)
DELETE_SNAPSHOT: Final = Method("DeleteSnapshot", m.DeleteSnapshotRequest, Empty)
LIST_SNAPSHOTS: Final = Method("ListSnapshots", m.ListSnapshotsRequest, m.ListSnapshotsResponse)
CONTROLLER_EXPAND_VOLUME: Final = Method(
    "ControllerExpandVolume", m.ControllerExpandVolumeRequest, m.ControllerExpandVolumeResponse
)
CONTROLLER_GET_VOLUME: Final = Method(
    "ControllerGetVolume", m.ControllerGetVolumeRequest, m.ControllerGetVolumeResponse
)
CONTROLLER_MODIFY_VOLUME: Final = Method("ControllerModifyVolume", m.ControllerModifyVolumeRequest, Empty)
CONTROLLER: Final = Service(
    "csi.v1.Controller",
    CREATE_VOLUME,
    DELETE_VOLUME,
    CONTROLLER_PUBLISH_VOLUME,
    CONTROLLER_UNPUBLISH_VOLUME,
    VALIDATE_VOLUME_CAPABILITIES,
    LIST_VOLUMES,
    GET_CAPACITY,
    CONTROLLER_GET_CAPABILITIES,
    CREATE_SNAPSHOT,
    DELETE_SNAPSHOT,
    LIST_SNAPSHOTS,
    CONTROLLER_EXPAND_VOLUME,
    CONTROLLER_GET_VOLUME,
    CONTROLLER_MODIFY_VOLUME,
)

NODE_STAGE_VOLUME: Final = Method("NodeStageVolume", m.NodeStageVolumeRequest, Empty)
NODE_UNSTAGE_VOLUME: Final = Method("NodeUnstageVolume", m.NodeUnstageVolumeRequest, Empty)
NODE_PUBLISH_VOLUME: Final = Method("NodePublishVolume", m.NodePublishVolumeRequest, Empty)
NODE_UNPUBLISH_VOLUME: Final = Method("NodeUnpublishVolume", m.NodeUnpublishVolumeRequest, Empty)
NODE_GET_VOLUME_STATS: Final = Method(
    "NodeGetVolumeStats", m.NodeGetVolumeStatsRequest, m.NodeGetVolumeStatsResponse
)
NODE_EXPAND_VOLUME: Final = Method("NodeExpandVolume", m.NodeExpandVolumeRequest, m.NodeExpandVolumeResponse)
NODE_GET_CAPABILITIES: Final = Method("NodeGetCapabilities", Empty, m.NodeGetCapabilitiesResponse)
NODE_GET_INFO: Final = Method("NodeGetInfo", Empty, m.NodeGetInfoResponse)
NODE: Final = Service(
    "csi.v1.Node",
    NODE_STAGE_VOLUME,
    NODE_UNSTAGE_VOLUME,
    NODE_PUBLISH_VOLUME,
    NODE_UNPUBLISH_VOLUME,
    NODE_GET_VOLUME_STATS,
    NODE_EXPAND_VOLUME,
    NODE_GET_CAPABILITIES,
    NODE_GET_INFO,
)
