"""The calls of the three CSI services, as calls of a `CSIDriver`.

What the specification requires of every driver is done here: missing fields are INVALID_ARGUMENT, a second
call for a volume during the first is ABORTED, objects that do not exist are deleted successfully, and lists
are sent in pages.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

from kubewright.node.errors import Aborted, InvalidArgument, OutOfRange, VolumeNotFound, as_rpc_error
from kubewright.node.messages import Empty, Message
from kubewright.node.rpc import UnixServer

from . import messages as csi
from .driver import CSIDriver
from .services import CONTROLLER, IDENTITY, NODE

ItemT = TypeVar("ItemT")


def add_services(server: UnixServer, driver: CSIDriver) -> None:
    """Serve the services that a driver implements."""
    server.add(IDENTITY, IdentityCalls(driver))
    if driver.controller_calls():
        server.add(CONTROLLER, ControllerCalls(driver))
    if driver.overrides("node_publish_volume"):
        server.add(NODE, NodeCalls(driver))


class IdentityCalls:
    """Calls of the identity service."""

    def __init__(self, driver: CSIDriver) -> None:
        self._driver = driver

    async def get_plugin_info(self, request: Empty) -> csi.GetPluginInfoResponse:
        """Return name and version."""
        return csi.GetPluginInfoResponse(name=self._driver.name, vendor_version=self._driver.version)

    async def get_plugin_capabilities(self, request: Empty) -> csi.GetPluginCapabilitiesResponse:
        """Return the optional services, and whether volumes can be expanded."""
        services = []
        if self._driver.controller_calls():
            services.append(csi.PluginService.CONTROLLER_SERVICE)
        if self._driver.has_topology:
            services.append(csi.PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        found = [csi.PluginCapability(service=csi.ServiceCapability(type=each)) for each in services]
        if self._driver.overrides("controller_expand_volume"):
            online = csi.VolumeExpansionCapability(type=csi.VolumeExpansion.ONLINE)
            found.append(csi.PluginCapability(volume_expansion=online))
        return csi.GetPluginCapabilitiesResponse(capabilities=found)

    async def probe(self, request: Empty) -> csi.ProbeResponse:
        """Return whether the driver is ready."""
        return csi.ProbeResponse(ready=csi.BoolValue(value=await self._driver.probe()))


class _Calls:
    """What the controller and the node service share."""

    def __init__(self, driver: CSIDriver) -> None:
        self._driver = driver
        self._busy: set[str] = set()

    @contextlib.asynccontextmanager
    async def _exclusive(self, kind: str, key: str) -> AsyncIterator[None]:
        """Reject a second call for an object while one is in progress."""
        if key in self._busy:
            raise Aborted(f"an operation with the given {kind} {key} already exists")
        self._busy.add(key)
        try:
            yield
        finally:
            self._busy.discard(key)

    def _check_capability(self, capability: csi.VolumeCapability | None) -> None:
        if problem := self._unsupported(capability):
            raise InvalidArgument(problem)

    def _unsupported(self, capability: csi.VolumeCapability | None) -> str:
        """Return why a capability is not supported; empty if it is."""
        if capability is None:
            return "volume capability missing in request"
        if (capability.block is None) == (capability.mount is None):
            return "volume capability: exactly one of block and mount is required"
        if capability.block is not None and not self._driver.supports_block:
            return f"block volumes are not supported by {self._driver.name}"
        mode = capability.access_mode.mode if capability.access_mode is not None else 0
        if mode not in self._driver.access_modes:
            name = csi.AccessMode(mode).name if mode in list(csi.AccessMode) else str(mode)
            return f"access mode {name} is not supported by {self._driver.name}"
        return ""


class ControllerCalls(_Calls):
    """Calls of the controller service."""

    async def controller_get_capabilities(self, request: Empty) -> csi.ControllerGetCapabilitiesResponse:
        """Return the calls that the driver implements."""
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[
                csi.ControllerServiceCapability(rpc=csi.ControllerCapability(type=call))
                for call in self._driver.controller_calls()
            ]
        )

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        """Create a volume."""
        _require(request, "name", "volume_capabilities")
        for capability in request.volume_capabilities:
            self._check_capability(capability)
        size = request.capacity_range
        if size is not None and size.limit_bytes and size.required_bytes > size.limit_bytes:
            raise OutOfRange(
                f"{size.required_bytes} bytes are required, but at most {size.limit_bytes} allowed"
            )
        source = request.volume_content_source
        if source is not None and source.volume is not None and not self._driver.supports_clones:
            raise InvalidArgument(f"{self._driver.name} cannot create a volume from another volume")
        async with self._exclusive("volume name", request.name):
            return csi.CreateVolumeResponse(volume=await self._driver.create_volume(request))

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> Empty:
        """Delete a volume; one that does not exist is deleted."""
        _require(request, "volume_id")
        async with self._exclusive("volume ID", request.volume_id), _ignoring_missing():
            await self._driver.delete_volume(request)
        return Empty()

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        """Attach a volume to a node."""
        _require(request, "volume_id", "node_id")
        self._check_capability(request.volume_capability)
        async with self._exclusive("volume ID", request.volume_id):
            context = await self._driver.controller_publish_volume(request)
        return csi.ControllerPublishVolumeResponse(publish_context=dict(context or {}))

    async def controller_unpublish_volume(self, request: csi.ControllerUnpublishVolumeRequest) -> Empty:
        """Detach a volume from a node."""
        _require(request, "volume_id")
        async with self._exclusive("volume ID", request.volume_id), _ignoring_missing():
            await self._driver.controller_unpublish_volume(request)
        return Empty()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        """Check capabilities; whether the volume exists is checked if the driver can read volumes."""
        _require(request, "volume_id", "volume_capabilities")
        if self._driver.overrides("controller_get_volume"):
            await self._driver.controller_get_volume(
                csi.ControllerGetVolumeRequest(volume_id=request.volume_id)
            )
        for capability in request.volume_capabilities:
            if problem := self._unsupported(capability):
                return csi.ValidateVolumeCapabilitiesResponse(message=problem)
        return csi.ValidateVolumeCapabilitiesResponse(
            confirmed=csi.ConfirmedCapabilities(
                volume_context=request.volume_context,
                volume_capabilities=request.volume_capabilities,
                parameters=request.parameters,
                mutable_parameters=request.mutable_parameters,
            )
        )

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        """Return a page of volumes."""
        volumes = list(await self._driver.list_volumes())
        page, token = _page(volumes, request.starting_token, request.max_entries)
        return csi.ListVolumesResponse(
            entries=[csi.VolumeEntry(volume=each) for each in page], next_token=token
        )

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        """Return the bytes that are available."""
        if any(self._unsupported(capability) for capability in request.volume_capabilities):
            return csi.GetCapacityResponse()
        return csi.GetCapacityResponse(available_capacity=await self._driver.get_capacity(request))

    async def controller_get_volume(
        self, request: csi.ControllerGetVolumeRequest
    ) -> csi.ControllerGetVolumeResponse:
        """Return a volume."""
        _require(request, "volume_id")
        volume = await self._driver.controller_get_volume(request)
        return csi.ControllerGetVolumeResponse(volume=volume, status=csi.VolumeStatus())

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        """Create a snapshot."""
        _require(request, "name", "source_volume_id")
        async with self._exclusive("snapshot name", request.name):
            return csi.CreateSnapshotResponse(snapshot=await self._driver.create_snapshot(request))

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> Empty:
        """Delete a snapshot; one that does not exist is deleted."""
        _require(request, "snapshot_id")
        async with self._exclusive("snapshot ID", request.snapshot_id), _ignoring_missing():
            await self._driver.delete_snapshot(request)
        return Empty()

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """Return a page of snapshots, of one volume or with one ID if requested."""
        snapshots = [
            each
            for each in await self._driver.list_snapshots()
            if request.source_volume_id in ("", each.source_volume_id)
            and request.snapshot_id in ("", each.snapshot_id)
        ]
        page, token = _page(snapshots, request.starting_token, request.max_entries)
        return csi.ListSnapshotsResponse(
            entries=[csi.SnapshotEntry(snapshot=each) for each in page], next_token=token
        )

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        """Expand a volume."""
        _require(request, "volume_id", "capacity_range")
        async with self._exclusive("volume ID", request.volume_id):
            return await self._driver.controller_expand_volume(request)

    async def controller_modify_volume(self, request: csi.ControllerModifyVolumeRequest) -> Empty:
        """Change the parameters of a volume."""
        _require(request, "volume_id")
        async with self._exclusive("volume ID", request.volume_id):
            await self._driver.controller_modify_volume(request)
        return Empty()


class NodeCalls(_Calls):
    """Calls of the node service."""

    async def node_get_capabilities(self, request: Empty) -> csi.NodeGetCapabilitiesResponse:
        """Return the calls that the driver implements."""
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[
                csi.NodeServiceCapability(rpc=csi.NodeCapability(type=call))
                for call in self._driver.node_calls()
            ]
        )

    async def node_get_info(self, request: Empty) -> csi.NodeGetInfoResponse:
        """Return the ID of the node, its topology and its limit of volumes."""
        segments = dict(self._driver.node_topology())
        return csi.NodeGetInfoResponse(
            node_id=self._driver.node_id,
            max_volumes_per_node=self._driver.max_volumes_per_node,
            accessible_topology=csi.Topology(segments=segments) if segments else None,
        )

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> Empty:
        """Prepare a volume on the node."""
        _require(request, "volume_id", "staging_target_path")
        self._check_capability(request.volume_capability)
        async with self._exclusive("volume ID", request.volume_id):
            await self._driver.node_stage_volume(request)
        return Empty()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> Empty:
        """Undo `node_stage_volume`."""
        _require(request, "volume_id", "staging_target_path")
        async with self._exclusive("volume ID", request.volume_id), _ignoring_missing():
            await self._driver.node_unstage_volume(request)
        return Empty()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> Empty:
        """Mount a volume for a pod."""
        _require(request, "volume_id", "target_path")
        self._check_capability(request.volume_capability)
        async with self._exclusive("target path", request.target_path):
            await self._driver.node_publish_volume(request)
        return Empty()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> Empty:
        """Unmount a volume."""
        _require(request, "volume_id", "target_path")
        async with self._exclusive("target path", request.target_path), _ignoring_missing():
            await self._driver.node_unpublish_volume(request)
        return Empty()

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        """Expand the file system of a volume."""
        _require(request, "volume_id", "volume_path")
        async with self._exclusive("volume ID", request.volume_id):
            return csi.NodeExpandVolumeResponse(capacity_bytes=await self._driver.node_expand_volume(request))

    async def node_get_volume_stats(
        self, request: csi.NodeGetVolumeStatsRequest
    ) -> csi.NodeGetVolumeStatsResponse:
        """Return the usage of a volume."""
        _require(request, "volume_id", "volume_path")
        usage = await self._driver.node_get_volume_stats(request)
        return csi.NodeGetVolumeStatsResponse(usage=list(usage))


def _require(request: Message, *fields: str) -> None:
    for field in fields:
        if not getattr(request, field):
            raise InvalidArgument(f"{field.replace('_', ' ')} missing in request")


@contextlib.asynccontextmanager
async def _ignoring_missing() -> AsyncIterator[None]:
    """Let a call succeed if what it removes does not exist."""
    try:
        yield
    except Exception as error:
        if not isinstance(as_rpc_error(error), VolumeNotFound):
            raise


def _page(items: Sequence[ItemT], token: str, limit: int) -> tuple[Iterable[ItemT], str]:
    """Return a page and the token of the next; tokens are positions, invalid ones are ABORTED."""
    if limit < 0:
        raise InvalidArgument("max entries must not be negative")
    if token and (not token.isdecimal() or int(token) > len(items)):
        raise Aborted(f"starting token {token!r} is not valid; start again without a token")
    start = int(token or 0)
    end = start + limit if limit else len(items)
    return items[start:end], str(end) if end < len(items) else ""
