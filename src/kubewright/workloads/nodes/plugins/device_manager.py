"""`DeviceManager`: the device plug-ins of one simulated node.

It serves the registration socket of a kubelet, watches the devices of registered plug-ins, and assigns
devices to the containers of admitted pods. The assignments are stored in a checkpoint file, so that a
restarted kubelet does not assign a device twice.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

from kubewright.node.devices.messages import (
    DIRECTORY,
    GET_OPTIONS,
    KUBELET_SOCKET,
    REGISTRATION,
    VERSION,
    Allocation,
    DevicePluginOptions,
    RegisterRequest,
)
from kubewright.node.errors import RPCError
from kubewright.node.messages import Empty
from kubewright.node.plugin_registration import PluginInfo
from kubewright.node.rpc import Channel, UnixServer
from kubewright.workloads.nodes.objects import Object

from .device_endpoint import AllocationError, DeviceEndpoint

logger = logging.getLogger(__name__)

CHECKPOINT: Final = "kubelet_internal_checkpoint"
CONNECT_SECONDS: Final = 10.0
STOPPED_SECONDS: Final = 300.0
"""How long the capacity of a stopped plug-in is reported."""


class DeviceCount(NamedTuple):
    """Devices of a resource: all, and the healthy ones."""

    capacity: int
    allocatable: int


class ContainerDevices(NamedTuple):
    """Devices of one resource that a container has."""

    ids: tuple[str, ...]
    allocation: Allocation


_Assignments = dict[str, dict[str, dict[str, ContainerDevices]]]
"""Devices by uid of the pod, container and resource."""


class DeviceManager:
    """Registration, capacity and assignment of devices of one node."""

    def __init__(
        self, directory: Path, *, on_change: Callable[[], None], active_pods: Callable[[], Collection[str]]
    ) -> None:
        """`directory` is that of the kubelet; `active_pods` returns the uids of pods that use devices."""
        self._directory = directory / DIRECTORY
        self._on_change = on_change
        self._active_pods = active_pods
        self._server: UnixServer | None = None
        self._endpoints: dict[str, DeviceEndpoint] = {}
        self._removals: dict[str, asyncio.TimerHandle] = {}
        self._known: set[str] = set()
        """Resources that were registered, also before a restart."""
        self._assigned: _Assignments = {}
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Listen for plug-ins; delete the sockets of an earlier kubelet, so that plug-ins register again."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.glob("*.sock"):
            path.unlink(missing_ok=True)
        self._assigned = self._read_checkpoint()
        for containers in self._assigned.values():
            for resources in containers.values():
                self._known.update(resources)
        self._server = UnixServer(self._directory / KUBELET_SOCKET)
        self._server.add(REGISTRATION, self)
        await self._server.start()

    async def stop(self) -> None:
        """Close the socket and the connections to the plug-ins."""
        for timer in self._removals.values():
            timer.cancel()
        self._removals.clear()
        if self._server is not None:
            await self._server.stop(0)
            self._server = None
        endpoints, self._endpoints = list(self._endpoints.values()), {}
        for endpoint in endpoints:
            await endpoint.close()

    # Registration

    async def register(self, request: RegisterRequest) -> Empty:
        """Connect to a plug-in; one that registers again replaces the earlier connection."""
        if request.version != VERSION:
            raise RPCError(
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{VERSION}"]'
            )
        domain, slash, _ = request.resource_name.partition("/")
        if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
            raise RPCError(f'the ResourceName "{request.resource_name}" is invalid')
        socket = self._directory / request.endpoint
        await self.connect(request.resource_name, socket, request.options or DevicePluginOptions())
        return Empty()

    async def connect(self, name: str, socket: Path, options: DevicePluginOptions) -> None:
        """Connect to the plug-in of a resource."""
        before = self._endpoints.pop(name, None)
        if before is not None:
            await before.close()
        if timer := self._removals.pop(name, None):
            timer.cancel()
        self._known.add(name)
        self._endpoints[name] = DeviceEndpoint(name, socket, options, lambda: self._changed(name))
        logger.info("device plug-in registered", extra={"resource": name, "endpoint": str(socket)})

    async def register_plugin(self, info: PluginInfo) -> None:
        """Connect to a plug-in that has registered in the registry of the kubelet."""
        socket = Path(info.endpoint)
        async with Channel(socket) as channel:
            options = await channel.call(GET_OPTIONS, Empty(), timeout=CONNECT_SECONDS)
        await self.connect(info.name, socket, options)

    def _changed(self, name: str) -> None:
        endpoint = self._endpoints.get(name)
        if endpoint is not None and endpoint.stopped and name not in self._removals:
            loop = asyncio.get_running_loop()
            self._removals[name] = loop.call_later(STOPPED_SECONDS, self._remove, name)
        self._on_change()

    def _remove(self, name: str) -> None:
        self._removals.pop(name, None)
        self._endpoints.pop(name, None)
        self._on_change()

    def counts(self) -> dict[str, DeviceCount]:
        """Return the number of devices by resource; zero for resources without a plug-in now."""
        found = {name: DeviceCount(0, 0) for name in self._known}
        for name, endpoint in self._endpoints.items():
            healthy = len(endpoint.healthy)
            found[name] = DeviceCount(healthy + len(endpoint.unhealthy), healthy)
        return found

    # Assignment

    def manages(self, spec: Object) -> bool:
        """Whether a pod requests devices of plug-ins."""
        return any(
            _limits(container, self._known)
            for part in ("initContainers", "containers")
            for container in spec.get(part) or ()
        )

    async def allocate(self, uid: str, spec: Object) -> None:
        """Assign devices to all containers of a pod; raise `AllocationError`."""
        async with self._lock:
            self._release_inactive()
            try:
                await self._allocate(uid, spec)
            except RPCError as error:
                self._assigned.pop(uid, None)
                raise AllocationError(str(error)) from None
            except AllocationError:
                self._assigned.pop(uid, None)
                raise
            finally:
                self._write_checkpoint()

    async def _allocate(self, uid: str, spec: Object) -> None:
        # Init containers end before other containers start, which therefore can have the same devices.
        reusable: dict[str, set[str]] = {}
        for part in ("initContainers", "containers"):
            for container in spec.get(part) or ():
                for resource, size in _limits(container, self._known).items():
                    if resource in self._assigned.get(uid, {}).get(container["name"], {}):
                        continue
                    shared = reusable.setdefault(resource, set())
                    ids = await self._choose(resource, size, shared)
                    if part == "initContainers" and container.get("restartPolicy") != "Always":
                        shared.update(ids)
                    else:
                        shared.difference_update(ids)
                    allocation = await self._endpoints[resource].allocate(ids)
                    by_container = self._assigned.setdefault(uid, {}).setdefault(container["name"], {})
                    by_container[resource] = ContainerDevices(tuple(ids), allocation)

    async def _choose(self, resource: str, size: int, reusable: set[str]) -> list[str]:
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        if not endpoint.healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        chosen = sorted(reusable & endpoint.healthy)[:size]
        needed = size - len(chosen)
        if needed <= 0:
            return chosen
        available = endpoint.healthy - self._in_use(resource)
        if len(available) < needed:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(available)}"
            )
        preferred = await endpoint.preferred(available | set(chosen), chosen, size)
        ordered = [each for each in preferred if each in available]
        ordered += sorted(available.difference(ordered))
        return chosen + ordered[:needed]

    def _in_use(self, resource: str) -> set[str]:
        return {
            device
            for containers in self._assigned.values()
            for resources in containers.values()
            if resource in resources
            for device in resources[resource].ids
        }

    def _release_inactive(self) -> None:
        active = self._active_pods()
        self._assigned = {uid: found for uid, found in self._assigned.items() if uid in active}

    def allocation(self, uid: str, container: str) -> Allocation | None:
        """Return what a container gets with all its devices; `None` without devices."""
        found = self._assigned.get(uid, {}).get(container)
        if not found:
            return None
        merged = Allocation()
        for devices in found.values():
            one = devices.allocation
            merged.envs.update(one.envs)
            merged.annotations.update(one.annotations)
            merged.mounts.extend(one.mounts)
            merged.devices.extend(one.devices)
            merged.cdi_devices.extend(one.cdi_devices)
        return merged

    def devices_of(self, uid: str, container: str) -> dict[str, tuple[str, ...]]:
        """Return the ids of the devices of a container by resource."""
        found = self._assigned.get(uid, {}).get(container, {})
        return {resource: devices.ids for resource, devices in found.items()}

    async def pre_start(self, uid: str, container: str) -> None:
        """Call PreStartContainer of the plug-ins of a container; raise `AllocationError`."""
        for resource, ids in self.devices_of(uid, container).items():
            endpoint = self._endpoints.get(resource)
            if endpoint is None:
                raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
            await endpoint.pre_start(ids)

    # Checkpoint

    def _write_checkpoint(self) -> None:
        data = [
            [uid, container, resource, devices.ids, base64.b64encode(devices.allocation.encode()).decode()]
            for uid, containers in self._assigned.items()
            for container, resources in containers.items()
            for resource, devices in resources.items()
        ]
        path = self._directory / CHECKPOINT
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(data))
        temporary.replace(path)

    def _read_checkpoint(self) -> _Assignments:
        path = self._directory / CHECKPOINT
        found: _Assignments = {}
        try:
            for uid, container, resource, ids, encoded in json.loads(path.read_text()):
                devices = ContainerDevices(tuple(ids), Allocation.decode(base64.b64decode(encoded)))
                found.setdefault(uid, {}).setdefault(container, {})[resource] = devices
        except FileNotFoundError:
            return {}
        except ValueError as error:
            logger.warning("could not read device checkpoint", extra={"path": str(path), "error": str(error)})
            return {}
        return found


def _limits(container: Object, resources: Collection[str]) -> dict[str, int]:
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: int(limits[name]) for name in limits if name in resources and int(limits[name]) > 0}
