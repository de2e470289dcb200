"""`CSIDriver`: the base class of storage drivers.

A driver overrides the calls that it supports. Its capabilities follow from that: a driver with
`controller_expand_volume` can expand volumes. Required fields of requests, access modes, pages of lists and
concurrent calls for one volume are handled before a method of the driver is called (`calls`).

All calls have to be idempotent: after a timeout they are repeated with the same arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from kubewright.node.plugin_registration import CSI_PLUGIN, PluginInfo, PluginRegistrar
from kubewright.node.rpc import UnixServer

from .messages import (
    AccessMode,
    ControllerCall,
    ControllerExpandVolumeRequest,
    ControllerExpandVolumeResponse,
    ControllerGetVolumeRequest,
    ControllerModifyVolumeRequest,
    ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest,
    CreateSnapshotRequest,
    CreateVolumeRequest,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    GetCapacityRequest,
    NodeCall,
    NodeExpandVolumeRequest,
    NodeGetVolumeStatsRequest,
    NodePublishVolumeRequest,
    NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest,
    Snapshot,
    Volume,
    VolumeUsage,
)

if TYPE_CHECKING:
    from kubewright.api.storage.v1 import CSIDriver as CSIDriverObject
    from kubewright.client import Client

KUBELET_DIRECTORY: Final = "/var/lib/kubelet"
VERSIONS: Final = ("1.0.0",)
"""Versions of the node service that a kubelet is offered."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,61}[A-Za-z0-9])?")
_CONTROLLER: Final[Mapping[str, ControllerCall]] = {
    "create_volume": ControllerCall.CREATE_DELETE_VOLUME,
    "controller_publish_volume": ControllerCall.PUBLISH_UNPUBLISH_VOLUME,
    "list_volumes": ControllerCall.LIST_VOLUMES,
    "get_capacity": ControllerCall.GET_CAPACITY,
    "create_snapshot": ControllerCall.CREATE_DELETE_SNAPSHOT,
    "list_snapshots": ControllerCall.LIST_SNAPSHOTS,
    "controller_expand_volume": ControllerCall.EXPAND_VOLUME,
    "controller_get_volume": ControllerCall.GET_VOLUME,
    "controller_modify_volume": ControllerCall.MODIFY_VOLUME,
}
_NODE: Final[Mapping[str, NodeCall]] = {
    "node_stage_volume": NodeCall.STAGE_UNSTAGE_VOLUME,
    "node_get_volume_stats": NodeCall.GET_VOLUME_STATS,
    "node_expand_volume": NodeCall.EXPAND_VOLUME,
}
_PAIRS: Final = (
    ("create_volume", "delete_volume"),
    ("controller_publish_volume", "controller_unpublish_volume"),
    ("create_snapshot", "delete_snapshot"),
    ("node_stage_volume", "node_unstage_volume"),
    ("node_publish_volume", "node_unpublish_volume"),
)


class CSIDriver:
    """Base class of drivers; `name` and the methods that the storage supports are required."""

    name: ClassVar[str] = ""
    """Name of the driver, such as `disks.csi.example.com`; the provisioner of storage classes."""
    version: ClassVar[str] = "0.0.0"
    access_modes: ClassVar[Collection[AccessMode]] = (
        AccessMode.SINGLE_NODE_WRITER,
        AccessMode.SINGLE_NODE_SINGLE_WRITER,
        AccessMode.SINGLE_NODE_MULTI_WRITER,
    )
    """Supported access modes; volumes with others are rejected."""
    supports_block: ClassVar[bool] = False
    """Whether volumes can be used as block devices."""
    supports_clones: ClassVar[bool] = False
    """Whether `create_volume` accepts another volume as the source."""
    supports_ephemeral: ClassVar[bool] = False
    """Whether pods can declare volumes inline, without a claim; `node_publish_volume` then creates them."""
    pod_info_on_mount: ClassVar[bool] = False
    """Whether `node_publish_volume` gets the name of the pod in the volume context."""
    max_volumes_per_node: ClassVar[int] = 0
    """Limit of volumes on a node; 0 means unlimited."""

    def __init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{type(self).__name__}.name is {self.name!r}; expected a domain name of at most 63 "
                'characters, such as "disks.csi.example.com"'
            )
        for first, second in _PAIRS:
            if self.overrides(first) != self.overrides(second):
                missing = second if self.overrides(first) else first
                raise TypeError(f"{type(self).__name__} also has to implement {missing}()")
        self.node_id = ""
        """The name of this node for the driver; set by `run`."""

    # Identity

    async def probe(self) -> bool:
        """Return whether the driver is ready, such as connected to its storage."""
        return True

    # Controller service

    async def create_volume(self, request: CreateVolumeRequest) -> Volume:
        """Create a volume, or return the one that an earlier request of the same name has created."""
        raise NotImplementedError

    async def delete_volume(self, request: DeleteVolumeRequest) -> None:
        """Delete a volume. If it does not exist, return or raise `VolumeNotFound`: both are a success."""
        raise NotImplementedError

    async def controller_publish_volume(
        self, request: ControllerPublishVolumeRequest
    ) -> Mapping[str, str] | None:
        """Attach a volume to a node; return what the node needs to find it (the publish context)."""
        raise NotImplementedError

    async def controller_unpublish_volume(self, request: ControllerUnpublishVolumeRequest) -> None:
        """Detach a volume from a node."""
        raise NotImplementedError

    async def controller_get_volume(self, request: ControllerGetVolumeRequest) -> Volume:
        """Return a volume; raise `VolumeNotFound`."""
        raise NotImplementedError

    async def controller_expand_volume(
        self, request: ControllerExpandVolumeRequest
    ) -> ControllerExpandVolumeResponse:
        """Expand a volume to at least the requested size."""
        raise NotImplementedError

    async def controller_modify_volume(self, request: ControllerModifyVolumeRequest) -> None:
        """Change the parameters of a volume, those of a VolumeAttributesClass."""
        raise NotImplementedError

    async def list_volumes(self) -> Iterable[Volume]:
        """Return all volumes in a stable order; they are sent in pages."""
        raise NotImplementedError

    async def get_capacity(self, request: GetCapacityRequest) -> int:
        """Return the bytes that are available for new volumes."""
        raise NotImplementedError

    async def create_snapshot(self, request: CreateSnapshotRequest) -> Snapshot:
        """Create a snapshot, or return the one that an earlier request of the same name has created."""
        raise NotImplementedError

    async def delete_snapshot(self, request: DeleteSnapshotRequest) -> None:
        """Delete a snapshot."""
        raise NotImplementedError

    async def list_snapshots(self) -> Iterable[Snapshot]:
        """Return all snapshots in a stable order; they are filtered and sent in pages."""
        raise NotImplementedError

    # Node service

    async def node_stage_volume(self, request: NodeStageVolumeRequest) -> None:
        """Prepare a volume on this node at the staging path, once for all pods."""
        raise NotImplementedError

    async def node_unstage_volume(self, request: NodeUnstageVolumeRequest) -> None:
        """Undo `node_stage_volume`."""
        raise NotImplementedError

    async def node_publish_volume(self, request: NodePublishVolumeRequest) -> None:
        """Mount a volume at the target path of a pod; the driver creates the path, its parent exists."""
        raise NotImplementedError

    async def node_unpublish_volume(self, request: NodeUnpublishVolumeRequest) -> None:
        """Unmount a volume and remove the target path."""
        raise NotImplementedError

    async def node_expand_volume(self, request: NodeExpandVolumeRequest) -> int:
        """Expand the file system of a mounted volume; return its size in bytes."""
        raise NotImplementedError

    async def node_get_volume_stats(self, request: NodeGetVolumeStatsRequest) -> Iterable[VolumeUsage]:
        """Return the usage of a volume in bytes and inodes."""
        raise NotImplementedError

    def node_topology(self) -> Mapping[str, str]:
        """Return the part of the cluster that volumes of this node are accessible from, as labels."""
        return {}

    # What is derived from the methods

    def overrides(self, method: str) -> bool:
        """Whether the driver implements a method."""
        return getattr(type(self), method) is not getattr(CSIDriver, method)

    def controller_calls(self) -> list[ControllerCall]:
        """Return the capabilities of the controller service."""
        found = [call for method, call in _CONTROLLER.items() if self.overrides(method)]
        if self.supports_clones:
            found.append(ControllerCall.CLONE_VOLUME)
        if found and self._separates_writers:
            found.append(ControllerCall.SINGLE_NODE_MULTI_WRITER)
        return sorted(found)

    def node_calls(self) -> list[NodeCall]:
        """Return the capabilities of the node service."""
        found = [call for method, call in _NODE.items() if self.overrides(method)]
        if self._separates_writers:
            found.append(NodeCall.SINGLE_NODE_MULTI_WRITER)
        return sorted(found)

    @property
    def _separates_writers(self) -> bool:
        return AccessMode.SINGLE_NODE_MULTI_WRITER in self.access_modes

    @property
    def has_topology(self) -> bool:
        """Whether volumes are accessible from a part of the cluster only."""
        return self.overrides("node_topology")

    def api_object(self) -> CSIDriverObject:
        """Return the CSIDriver object that tells the cluster how to use the driver."""
        from kubewright.api.meta import ObjectMeta
        from kubewright.api.storage.v1 import CSIDriver as CSIDriverObject
        from kubewright.api.storage.v1 import CSIDriverSpec

        modes = ["Persistent"] if self.overrides("create_volume") or not self.supports_ephemeral else []
        return CSIDriverObject(
            metadata=ObjectMeta(name=self.name),
            spec=CSIDriverSpec(
                attach_required=self.overrides("controller_publish_volume"),
                pod_info_on_mount=self.pod_info_on_mount,
                volume_lifecycle_modes=modes + (["Ephemeral"] if self.supports_ephemeral else []),
            ),
        )

    # Serving

    def serve(self, endpoint: str | os.PathLike[str]) -> UnixServer:
        """Return a server of all services of the driver; start and stop it."""
        from .calls import add_services

        server = UnixServer(endpoint)
        add_services(server, self)
        return server

    async def run(
        self,
        stop: asyncio.Event | None = None,
        *,
        endpoint: str | os.PathLike[str] | None = None,
        node: str | None = None,
        kubelet_directory: str | os.PathLike[str] = KUBELET_DIRECTORY,
        client: Client | None = None,
    ) -> None:
        """Serve the driver until `stop` is set or a signal is received.

        With the name of a `node`, it is registered with the kubelet of this node. With a `client`, the
        controllers of the driver run in this process too (`CSIControllerManager`), with leader election
        unless a node is given. The endpoint is a socket, by default in the directory of the kubelet.
        """
        from kubewright.manager.signals import stopping_on_signals

        stopping = stop if stop is not None else asyncio.Event()
        signals = stopping_on_signals(stopping) if stop is None else contextlib.nullcontext()
        directory = Path(kubelet_directory)
        socket = Path(endpoint) if endpoint is not None else directory / "plugins" / self.name / "csi.sock"
        self.node_id = node or ""
        with signals:
            async with contextlib.AsyncExitStack() as stack:
                server = self.serve(socket)
                await server.start()
                stack.push_async_callback(server.stop)
                if node is not None:
                    info = PluginInfo(
                        type=CSI_PLUGIN,
                        name=self.name,
                        endpoint=server.path,
                        supported_versions=list(VERSIONS),
                    )
                    registrar = PluginRegistrar(directory, info)
                    await registrar.start()
                    stack.push_async_callback(registrar.stop)
                if client is None:
                    await stopping.wait()
                    return
                from .controller_manager import CSIControllerManager, install_driver

                await install_driver(client, self)
                manager = await CSIControllerManager.connect(
                    server.path, client, leader_election=node is None, handle_signals=False
                )
                stack.push_async_callback(manager.close)
                await manager.run(stopping)
