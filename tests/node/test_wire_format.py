"""Messages as the Go libraries of CSI and of the kubelet encode them."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="requires kubewright[node]")

from kubewright.node.csi.messages import (
    AccessMode,
    AccessModeCapability,
    BlockVolume,
    CapacityRange,
    CreateSnapshotResponse,
    CreateVolumeRequest,
    MountVolume,
    NodePublishVolumeRequest,
    Snapshot,
    SnapshotSource,
    Timestamp,
    Topology,
    TopologyRequirement,
    VolumeCapability,
    VolumeContentSource,
)
from kubewright.node.devices.messages import (
    AllocateResponse,
    Allocation,
    DeviceMessage,
    DeviceSpec,
    ListAndWatchResponse,
    Mount,
    NUMANode,
    TopologyInfo,
)
from kubewright.node.messages import Message

MOUNT = VolumeCapability(
    mount=MountVolume(fs_type="ext4", mount_flags=["ro"]),
    access_mode=AccessModeCapability(mode=AccessMode.MULTI_NODE_MULTI_WRITER),
)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (
            "0a057076632d3112120880808080802010ffffffffffffffffff011a101a020805120a0a04657874341202726f1a020a00"
            "220c0a04746965721204676f6c6432050a030a01733a110a0f0a0d0a047a6f6e6512056e6f727468",
            CreateVolumeRequest(
                name="pvc-1",
                capacity_range=CapacityRange(required_bytes=1 << 40, limit_bytes=-1),
                volume_capabilities=[MOUNT, VolumeCapability(block=BlockVolume())],
                parameters={"tier": "gold"},
                volume_content_source=VolumeContentSource(snapshot=SnapshotSource(snapshot_id="s")),
                accessibility_requirements=TopologyRequirement(
                    requisite=[Topology(segments={"zone": "north"})]
                ),
            ),
        ),
        (
            "0a1508ac021201731a017622080880e2cfaa0610052801",
            CreateSnapshotResponse(
                snapshot=Snapshot(
                    size_bytes=300,
                    snapshot_id="s",
                    source_volume_id="v",
                    creation_time=Timestamp(seconds=1700000000, nanos=5),
                    ready_to_use=True,
                )
            ),
        ),
        (
            "0a017612120a0664657669636512082f6465762f7664621a022f7322022f742a101a020805120a0a04657874341202726f"
            "3001",
            NodePublishVolumeRequest(
                volume_id="v",
                publish_context={"device": "/dev/vdb"},
                staging_target_path="/s",
                target_path="/t",
                volume_capability=MOUNT,
                readonly=True,
            ),
        ),
        (
            "0a2b0a070a01411202c3bc120a0a022f6312022f6818011a140a062f6465762f6112062f6465762f621a0272770a00",
            AllocateResponse(
                container_responses=[
                    Allocation(
                        envs={"A": "ü"},
                        mounts=[Mount(container_path="/c", host_path="/h", read_only=True)],
                        devices=[DeviceSpec(container_path="/dev/a", host_path="/dev/b", permissions="rw")],
                    ),
                    Allocation(),
                ]
            ),
        ),
        (
            "0a140a016112074865616c7468791a060a0208010a00",
            ListAndWatchResponse(
                devices=[
                    DeviceMessage(
                        id="a",
                        health="Healthy",
                        topology=TopologyInfo(nodes=[NUMANode(id=1), NUMANode()]),
                    )
                ]
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_messages_of_go(encoded: str, message: Message) -> None:
    assert type(message).decode(bytes.fromhex(encoded)) == message
    # Go may write the fields of a oneof last; the order of fields has no meaning.
    assert sorted(message.encode()) == sorted(bytes.fromhex(encoded))
