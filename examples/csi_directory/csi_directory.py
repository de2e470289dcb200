"""CSI driver whose volumes are directories: with snapshots, clones, expansion and attachments.

python csi_directory.py --root volumes --node node-0 --controllers --kubeconfig kubeconfig

    ROOT/volumes/ID/data        the files of a volume
    ROOT/volumes/ID/volume.json its name, size and node
    ROOT/snapshots/ID           the same for a snapshot

Sizes are recorded, not enforced.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kubewright.client import Client
from kubewright.manager.observability import logs
from kubewright.node import FailedPrecondition, OutOfRange, VolumeExists, VolumeNotFound
from kubewright.node.csi import (
    CapacityRange,
    ControllerExpandVolumeRequest,
    ControllerExpandVolumeResponse,
    ControllerGetVolumeRequest,
    ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest,
    CreateSnapshotRequest,
    CreateVolumeRequest,
    CSIDriver,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    NodeExpandVolumeRequest,
    NodeGetVolumeStatsRequest,
    NodePublishVolumeRequest,
    NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest,
    Snapshot,
    Timestamp,
    UsageUnit,
    Volume,
    VolumeUsage,
)

DEFAULT_BYTES = 1 << 30
MAX_BYTES = 1 << 40


class DirectoryDriver(CSIDriver):
    """Volumes as directories below one root, which all nodes share."""

    name = "directory.csi.example.com"
    version = "1.0.0"
    supports_clones = True
    pod_info_on_mount = True

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._volumes = root.absolute() / "volumes"
        self._snapshots = root.absolute() / "snapshots"
        for path in (self._volumes, self._snapshots):
            path.mkdir(parents=True, exist_ok=True)

    # Volumes

    async def create_volume(self, request: CreateVolumeRequest) -> Volume:
        """Create a directory; with a source, as a copy."""
        size = _size(request.capacity_range)
        source = request.volume_content_source
        origin = ""
        if source is not None and source.snapshot is not None:
            origin = source.snapshot.snapshot_id
            files = _existing(self._snapshots, origin) / "data"
        elif source is not None and source.volume is not None:
            origin = source.volume.volume_id
            files = _existing(self._volumes, origin) / "data"
        identifier = _identifier(request.name)
        path = self._volumes / identifier
        if not path.exists():
            details = {"name": request.name, "bytes": size, "origin": origin, "node": ""}
            await asyncio.to_thread(_create, path, details, files if origin else None)
        found = _read(path)
        limit = request.capacity_range.limit_bytes if request.capacity_range is not None else 0
        if found["bytes"] < size or (limit and found["bytes"] > limit) or found["origin"] != origin:
            raise VolumeExists(f"volume {request.name} exists with another size or source")
        return Volume(
            volume_id=identifier,
            capacity_bytes=found["bytes"],
            volume_context={"class": request.parameters.get("class", "standard")},
            content_source=source,
        )

    async def delete_volume(self, request: DeleteVolumeRequest) -> None:
        """Delete a directory that is not attached."""
        path = _existing(self._volumes, request.volume_id)
        if node := _read(path)["node"]:
            raise FailedPrecondition(f"volume {request.volume_id} is attached to {node}")
        await asyncio.to_thread(shutil.rmtree, path)

    async def controller_get_volume(self, request: ControllerGetVolumeRequest) -> Volume:
        """Return a volume."""
        return self._volume(_existing(self._volumes, request.volume_id))

    async def list_volumes(self) -> Iterable[Volume]:
        """Return all volumes."""
        return [self._volume(path) for path in sorted(self._volumes.iterdir())]

    def _volume(self, path: Path) -> Volume:
        return Volume(volume_id=path.name, capacity_bytes=_read(path)["bytes"])

    async def controller_publish_volume(self, request: ControllerPublishVolumeRequest) -> Mapping[str, str]:
        """Record the node of a volume: it can have one."""
        path = _existing(self._volumes, request.volume_id)
        found = _read(path)
        if found["node"] not in ("", request.node_id):
            raise FailedPrecondition(f"volume {request.volume_id} is attached to {found['node']}")
        _write(path, {**found, "node": request.node_id})
        return {"path": str(path / "data")}

    async def controller_unpublish_volume(self, request: ControllerUnpublishVolumeRequest) -> None:
        """Forget the node of a volume."""
        path = _existing(self._volumes, request.volume_id)
        found = _read(path)
        if request.node_id in ("", found["node"]):
            _write(path, {**found, "node": ""})

    async def controller_expand_volume(
        self, request: ControllerExpandVolumeRequest
    ) -> ControllerExpandVolumeResponse:
        """Record a larger size; the node then has to expand the file system."""
        path = _existing(self._volumes, request.volume_id)
        found = _read(path)
        size = max(found["bytes"], _size(request.capacity_range))
        _write(path, {**found, "bytes": size})
        return ControllerExpandVolumeResponse(capacity_bytes=size, node_expansion_required=True)

    # Snapshots

    async def create_snapshot(self, request: CreateSnapshotRequest) -> Snapshot:
        """Copy the files of a volume."""
        path = self._snapshots / _identifier(request.name)
        if not path.exists():
            volume = _existing(self._volumes, request.source_volume_id)
            details = {"bytes": _read(volume)["bytes"], "source": volume.name, "time": time.time_ns()}
            await asyncio.to_thread(_create, path, details, volume / "data")
        if _read(path)["source"] != request.source_volume_id:
            raise VolumeExists(f"snapshot {request.name} exists for another volume")
        return _snapshot(path)

    async def delete_snapshot(self, request: DeleteSnapshotRequest) -> None:
        """Delete the copy."""
        await asyncio.to_thread(shutil.rmtree, _existing(self._snapshots, request.snapshot_id))

    async def list_snapshots(self) -> Iterable[Snapshot]:
        """Return all snapshots."""
        return [_snapshot(path) for path in sorted(self._snapshots.iterdir())]

    # Node

    async def node_stage_volume(self, request: NodeStageVolumeRequest) -> None:
        """Link the directory at the staging path, where a driver for disks mounts the file system."""
        _link(Path(request.staging_target_path) / "volume", request.publish_context["path"])

    async def node_unstage_volume(self, request: NodeUnstageVolumeRequest) -> None:
        """Remove the link."""
        _unlink(Path(request.staging_target_path) / "volume")

    async def node_publish_volume(self, request: NodePublishVolumeRequest) -> None:
        """Link the directory at the path of the pod; a driver for real nodes uses a bind mount."""
        _link(Path(request.target_path), _target(Path(request.staging_target_path) / "volume"))

    async def node_unpublish_volume(self, request: NodeUnpublishVolumeRequest) -> None:
        """Remove the link."""
        _unlink(Path(request.target_path))

    async def node_expand_volume(self, request: NodeExpandVolumeRequest) -> int:
        """Return the size: a directory has no file system of its own."""
        return int(_read(_existing(self._volumes, request.volume_id))["bytes"])

    async def node_get_volume_stats(self, request: NodeGetVolumeStatsRequest) -> Iterable[VolumeUsage]:
        """Return the bytes and the number of the files."""
        total = int(_read(_existing(self._volumes, request.volume_id))["bytes"])
        sizes = _file_sizes(Path(request.volume_path))
        used = sum(sizes)
        return [
            VolumeUsage(unit=UsageUnit.BYTES, total=total, used=used, available=max(0, total - used)),
            VolumeUsage(unit=UsageUnit.INODES, used=len(sizes)),
        ]


def _size(requested: CapacityRange | None) -> int:
    size = (requested.required_bytes if requested is not None else 0) or DEFAULT_BYTES
    if size > MAX_BYTES:
        raise OutOfRange(f"{size} bytes are more than the limit of {MAX_BYTES}")
    return size


def _identifier(name: str) -> str:
    """Return an ID that depends on the name only, so that repeated requests find what exists."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _existing(folder: Path, identifier: str) -> Path:
    path = folder / os.path.basename(identifier)
    if not path.is_dir():
        raise VolumeNotFound(f"{folder.name[:-1]} {identifier} does not exist")
    return path


def _create(path: Path, details: dict[str, Any], files: Path | None) -> None:
    """Create a volume or snapshot; it appears only when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    if files is not None:
        shutil.copytree(files, temporary / "data", symlinks=True)
    else:
        (temporary / "data").mkdir(mode=0o777)
    _write(temporary, details)
    temporary.rename(path)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "volume.json").read_text())
    return found


def _write(path: Path, details: dict[str, Any]) -> None:
    temporary = path / ".volume.json"
    temporary.write_text(json.dumps(details))
    temporary.replace(path / "volume.json")


def _snapshot(path: Path) -> Snapshot:
    found = _read(path)
    seconds, nanos = divmod(found["time"], 10**9)
    return Snapshot(
        snapshot_id=path.name,
        source_volume_id=found["source"],
        size_bytes=found["bytes"],
        creation_time=Timestamp(seconds=seconds, nanos=nanos),
        ready_to_use=True,
    )


def _link(path: Path, target: str) -> None:
    if path.is_symlink() and os.readlink(path) == target:
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target, target_is_directory=True)


def _target(path: Path) -> str:
    return os.path.realpath(path)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _file_sizes(path: Path) -> list[int]:
    return [each.stat().st_size for each in path.resolve().rglob("*") if each.is_file()]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("/var/lib/csi-directory"))
    parser.add_argument("--endpoint", type=Path, help="socket of the driver")
    parser.add_argument("--node", help="register with the kubelet of this node")
    parser.add_argument("--kubelet-directory", type=Path, default=Path("/var/lib/kubelet"))
    parser.add_argument("--controllers", action="store_true", help="run the controllers of the driver too")
    parser.add_argument("--kubeconfig", default=None)
    arguments = parser.parse_args()
    logs.setup()
    options: dict[str, Any] = {
        "endpoint": arguments.endpoint,
        "node": arguments.node,
        "kubelet_directory": arguments.kubelet_directory,
    }
    driver = DirectoryDriver(arguments.root)
    if not arguments.controllers:
        await driver.run(**options)
        return
    async with Client.connect(kubeconfig=arguments.kubeconfig) as client:
        await driver.run(**options, client=client)


if __name__ == "__main__":
    asyncio.run(main())
