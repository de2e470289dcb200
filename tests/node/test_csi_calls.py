"""The CSI services of a driver over gRPC: capabilities, required fields, idempotency and errors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="requires kubewright[node]")

from csi_directory import DirectoryDriver
from kubewright.node import RPCError
from kubewright.node.csi import (
    AccessMode,
    AccessModeCapability,
    BlockVolume,
    CapacityRange,
    ControllerCall,
    ControllerExpandVolumeRequest,
    CreateSnapshotRequest,
    CreateVolumeRequest,
    CSIClient,
    CSIDriver,
    DeleteVolumeRequest,
    MountVolume,
    NodeCall,
    NodeGetVolumeStatsRequest,
    NodePublishVolumeRequest,
    NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest,
    Volume,
    VolumeCapability,
)
from kubewright.node.csi.messages import (
    ListSnapshotsRequest,
    ListVolumesRequest,
    ValidateVolumeCapabilitiesRequest,
)
from kubewright.node.csi.services import (
    CONTROLLER_EXPAND_VOLUME,
    CREATE_SNAPSHOT,
    CREATE_VOLUME,
    DELETE_VOLUME,
    LIST_SNAPSHOTS,
    LIST_VOLUMES,
    NODE_GET_VOLUME_STATS,
    NODE_PUBLISH_VOLUME,
    NODE_STAGE_VOLUME,
    NODE_UNPUBLISH_VOLUME,
    VALIDATE_VOLUME_CAPABILITIES,
)

GIBI = 1 << 30
WRITER = VolumeCapability(
    mount=MountVolume(), access_mode=AccessModeCapability(mode=AccessMode.SINGLE_NODE_WRITER)
)


@pytest.fixture
async def driver(kubelets: Path) -> AsyncIterator[CSIClient]:
    """A connection to the example driver."""
    server = DirectoryDriver(kubelets / "root").serve(kubelets / "csi.sock")
    await server.start()
    client = await CSIClient(kubelets / "csi.sock").connect(node=True)
    yield client
    await client.close()
    await server.stop()


def volume(name: str, size: int = GIBI, **fields: Any) -> CreateVolumeRequest:
    fields.setdefault("volume_capabilities", [WRITER])
    return CreateVolumeRequest(name=name, capacity_range=CapacityRange(required_bytes=size), **fields)


async def create(driver: CSIClient, request: CreateVolumeRequest) -> Volume:
    found = (await driver.call(CREATE_VOLUME, request)).volume
    assert found is not None
    return found


async def test_capabilities_follow_from_the_methods(driver: CSIClient) -> None:
    assert (driver.name, driver.version) == ("directory.csi.example.com", "1.0.0")
    assert driver.controller_calls == {
        ControllerCall.CREATE_DELETE_VOLUME,
        ControllerCall.PUBLISH_UNPUBLISH_VOLUME,
        ControllerCall.LIST_VOLUMES,
        ControllerCall.CREATE_DELETE_SNAPSHOT,
        ControllerCall.LIST_SNAPSHOTS,
        ControllerCall.CLONE_VOLUME,
        ControllerCall.EXPAND_VOLUME,
        ControllerCall.GET_VOLUME,
        ControllerCall.SINGLE_NODE_MULTI_WRITER,
    }
    assert driver.node_calls == {
        NodeCall.STAGE_UNSTAGE_VOLUME,
        NodeCall.GET_VOLUME_STATS,
        NodeCall.EXPAND_VOLUME,
        NodeCall.SINGLE_NODE_MULTI_WRITER,
    }
    assert not driver.has_topology


async def test_repeated_requests_return_what_exists(driver: CSIClient) -> None:
    first = await create(driver, volume("pvc-1"))
    assert await create(driver, volume("pvc-1")) == first
    with pytest.raises(RPCError, match="code = AlreadyExists desc = volume pvc-1 exists"):
        await create(driver, volume("pvc-1", 2 * GIBI))
    snapshot = CreateSnapshotRequest(name="s", source_volume_id=first.volume_id)
    assert await driver.call(CREATE_SNAPSHOT, snapshot) == await driver.call(CREATE_SNAPSHOT, snapshot)
    for _ in range(2):
        await driver.call(DELETE_VOLUME, DeleteVolumeRequest(volume_id=first.volume_id))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (volume(""), "InvalidArgument desc = name missing in request"),
        (volume("a", volume_capabilities=[]), "InvalidArgument desc = volume capabilities missing"),
        (
            volume("a", volume_capabilities=[VolumeCapability(access_mode=WRITER.access_mode)]),
            "InvalidArgument desc = volume capability: exactly one of block and mount is required",
        ),
        (
            volume(
                "a",
                volume_capabilities=[VolumeCapability(block=BlockVolume(), access_mode=WRITER.access_mode)],
            ),
            "InvalidArgument desc = block volumes are not supported",
        ),
        (
            volume(
                "a",
                volume_capabilities=[
                    VolumeCapability(
                        mount=MountVolume(),
                        access_mode=AccessModeCapability(mode=AccessMode.MULTI_NODE_MULTI_WRITER),
                    )
                ],
            ),
            "InvalidArgument desc = access mode MULTI_NODE_MULTI_WRITER is not supported",
        ),
        (volume("a", 1 << 50), "OutOfRange desc = 1125899906842624 bytes are more than the limit"),
    ],
)
async def test_requests_that_are_not_valid(
    driver: CSIClient, request_: CreateVolumeRequest, message: str
) -> None:
    with pytest.raises(RPCError, match=message):
        await create(driver, request_)


async def test_lists_are_sent_in_pages(driver: CSIClient) -> None:
    names = {(await create(driver, volume(f"pvc-{number}"))).volume_id for number in range(3)}
    first = await driver.call(LIST_VOLUMES, ListVolumesRequest(max_entries=2))
    assert (len(first.entries), first.next_token) == (2, "2")
    second = await driver.call(LIST_VOLUMES, ListVolumesRequest(max_entries=2, starting_token="2"))
    assert (len(second.entries), second.next_token) == (1, "")
    found = {each.volume.volume_id for each in first.entries + second.entries if each.volume is not None}
    assert found == names
    with pytest.raises(RPCError, match="code = Aborted desc = starting token 'x' is not valid"):
        await driver.call(LIST_VOLUMES, ListVolumesRequest(starting_token="x"))

    for number, name in enumerate(sorted(names)):
        await driver.call(CREATE_SNAPSHOT, CreateSnapshotRequest(name=f"s{number}", source_volume_id=name))
    wanted = ListSnapshotsRequest(source_volume_id=min(names))
    (entry,) = (await driver.call(LIST_SNAPSHOTS, wanted)).entries
    assert entry.snapshot is not None
    assert entry.snapshot.source_volume_id == min(names)


async def test_volumes_that_do_not_exist(driver: CSIClient) -> None:
    request = ControllerExpandVolumeRequest(
        volume_id="missing", capacity_range=CapacityRange(required_bytes=1)
    )
    with pytest.raises(RPCError, match="code = NotFound desc = volume missing does not exist"):
        await driver.call(CONTROLLER_EXPAND_VOLUME, request)
    check = ValidateVolumeCapabilitiesRequest(volume_id="missing", volume_capabilities=[WRITER])
    with pytest.raises(RPCError, match="code = NotFound"):
        await driver.call(VALIDATE_VOLUME_CAPABILITIES, check)
    found = await create(driver, volume("pvc-1"))
    check.volume_id = found.volume_id
    assert (await driver.call(VALIDATE_VOLUME_CAPABILITIES, check)).confirmed is not None


async def test_volumes_on_a_node(driver: CSIClient, kubelets: Path) -> None:
    found = await create(driver, volume("pvc-1"))
    data = kubelets / "root" / "volumes" / found.volume_id / "data"
    staging, target = kubelets / "staging", kubelets / "target"
    staging.mkdir()
    context = {"path": str(data)}
    for _ in range(2):
        await driver.call(
            NODE_STAGE_VOLUME,
            NodeStageVolumeRequest(
                volume_id=found.volume_id,
                staging_target_path=str(staging),
                volume_capability=WRITER,
                publish_context=context,
            ),
        )
        await driver.call(
            NODE_PUBLISH_VOLUME,
            NodePublishVolumeRequest(
                volume_id=found.volume_id,
                staging_target_path=str(staging),
                target_path=str(target),
                volume_capability=WRITER,
            ),
        )
    (target / "file").write_text("12345")
    stats = NodeGetVolumeStatsRequest(volume_id=found.volume_id, volume_path=str(target))
    (usage, inodes) = (await driver.call(NODE_GET_VOLUME_STATS, stats)).usage
    assert (usage.used, usage.total, inodes.used) == (5, GIBI, 1)
    for _ in range(2):
        await driver.call(
            NODE_UNPUBLISH_VOLUME,
            NodeUnpublishVolumeRequest(volume_id=found.volume_id, target_path=str(target)),
        )
    assert not target.exists()
    assert (data / "file").exists()


class Slow(CSIDriver):
    """Waits in `create_volume`, and fails in `delete_volume`."""

    name = "slow.csi.example.com"

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.finish = asyncio.Event(), asyncio.Event()

    async def create_volume(self, request: CreateVolumeRequest) -> Volume:
        self.entered.set()
        await self.finish.wait()
        return Volume(volume_id="v")

    async def delete_volume(self, request: DeleteVolumeRequest) -> None:
        errors: dict[str, Exception] = {
            "full": OSError(28, "No space left on device"),
            "denied": PermissionError("not allowed"),
            "bug": KeyError("missing"),
        }
        raise errors[request.volume_id]


async def test_concurrent_calls_and_errors(kubelets: Path) -> None:
    driver = Slow()
    server = driver.serve(kubelets / "csi.sock")
    await server.start()
    client = await CSIClient(kubelets / "csi.sock").connect()
    try:
        first = asyncio.create_task(create(client, volume("a")))
        await driver.entered.wait()
        with pytest.raises(
            RPCError, match="Aborted desc = an operation with the given volume name a already"
        ):
            await create(client, volume("a"))
        driver.finish.set()
        assert (await first).volume_id == "v"
        for name, text in (
            ("full", "code = ResourceExhausted desc = .*No space left on device"),
            ("denied", "code = PermissionDenied desc = not allowed"),
            ("bug", "code = Internal desc = 'missing'"),
        ):
            with pytest.raises(RPCError, match=text):
                await client.call(DELETE_VOLUME, DeleteVolumeRequest(volume_id=name))
        with pytest.raises(RPCError, match="code = Unimplemented"):
            await client.call(
                NODE_UNPUBLISH_VOLUME, NodeUnpublishVolumeRequest(volume_id="v", target_path="/x")
            )
    finally:
        await client.close()
        await server.stop()


def test_declarations_are_checked() -> None:
    class Unnamed(CSIDriver):
        pass

    with pytest.raises(ValueError, match="expected a domain name of at most 63 characters"):
        Unnamed()

    class Incomplete(CSIDriver):
        name = "incomplete.csi.example.com"

        async def create_volume(self, request: CreateVolumeRequest) -> Volume:
            return Volume()

    with pytest.raises(TypeError, match=r"Incomplete also has to implement delete_volume\(\)"):
        Incomplete()


def test_the_csidriver_object_follows_from_the_methods(kubelets: Path) -> None:
    spec = DirectoryDriver(kubelets).api_object().spec
    assert spec is not None
    assert (spec.attach_required, spec.pod_info_on_mount) == (True, True)
    assert spec.volume_lifecycle_modes == ["Persistent"]
    other = Slow.api_object(Slow.__new__(Slow)).spec
    assert other is not None
    assert other.attach_required is False


def test_generated_modules_are_up_to_date() -> None:
    specification = os.environ.get("CSI_SPECIFICATION")
    if not specification:
        pytest.skip("CSI_SPECIFICATION does not name a clone of the repository of the CSI specification")
    tool = Path(__file__).parents[2] / "tools" / "generate_csi_messages.py"
    done = subprocess.run(
        [sys.executable, str(tool), specification, "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
