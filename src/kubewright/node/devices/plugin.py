"""`DevicePlugin`: serves the devices of a node to its kubelet.

A plug-in listens on a socket in the directory of the kubelet and registers with the socket of the kubelet,
which then connects and reads the list of devices as a stream. A kubelet that starts deletes all sockets of
the directory and creates its own again; the plug-in then listens and registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from kubewright.node.errors import RPCError
from kubewright.node.messages import Empty
from kubewright.node.rpc import Channel, UnixServer

from . import messages

logger = logging.getLogger(__name__)

KUBELET_DIRECTORY: Final = "/var/lib/kubelet"
POLL_SECONDS: Final = 1.0
"""Time between checks whether the kubelet has restarted."""
REGISTER_SECONDS: Final = 10.0
_RESOURCE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Device:
    """A device that the plug-in offers."""

    id: str
    healthy: bool = True
    numa_nodes: tuple[int, ...] = ()
    """NUMA nodes that the device is close to."""


class DevicePlugin:
    """Base class of device plug-ins. Override `devices` and, if containers get something, `allocate`.

    `get_preferred_allocation` and `pre_start_container` are optional: the kubelet calls them only if a
    subclass overrides them.
    """

    resource: ClassVar[str] = ""
    """Name of the extended resource, such as `example.com/gpu`."""

    def __init__(self) -> None:
        if not _RESOURCE.fullmatch(self.resource) or self.resource.partition("/")[0].endswith(
            "kubernetes.io"
        ):
            raise ValueError(
                f"{type(self).__name__}.resource is {self.resource!r}; expected the name of an extended "
                'resource with a domain of your own, such as "example.com/gpu"'
            )
        self.registered = asyncio.Event()
        """Set while the plug-in is registered with a kubelet."""
        self._devices: list[Device] | None = None
        self._changed = asyncio.Condition()

    # To override

    def devices(self) -> AsyncIterator[Iterable[Device]]:
        """Yield the complete list of devices, at the start and after each change of a device.

        The generator runs once, for all kubelets; the list stays valid when it ends.
        """
        raise NotImplementedError(f"{type(self).__name__} has to implement devices()")

    async def allocate(self, ids: Sequence[str]) -> messages.Allocation:
        """Return what a container with these devices gets: variables, mounts and device files."""
        return messages.Allocation()

    async def get_preferred_allocation(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Choose `size` devices of those available, including all required ones."""
        raise NotImplementedError

    async def pre_start_container(self, ids: Sequence[str]) -> None:
        """Prepare devices before each start of their container, such as with a reset."""
        raise NotImplementedError

    # Serving

    async def run(
        self,
        stop: asyncio.Event | None = None,
        *,
        kubelet_directory: str | os.PathLike[str] = KUBELET_DIRECTORY,
        poll_interval: float = POLL_SECONDS,
    ) -> None:
        """Serve the plug-in until `stop` is set, or a signal is received; raise what `devices` raises.

        Without a kubelet it waits for one. `kubelet_directory` contains `device-plugins`.
        """
        from kubewright.manager.signals import stopping_on_signals

        directory = Path(kubelet_directory) / messages.DIRECTORY
        stopping = stop if stop is not None else asyncio.Event()
        signals = stopping_on_signals(stopping) if stop is None else contextlib.nullcontext()
        with signals:
            await self._run(stopping, directory, poll_interval)

    async def _run(self, stop: asyncio.Event, directory: Path, poll_interval: float) -> None:
        stopped = asyncio.create_task(stop.wait())
        tasks: set[asyncio.Task[Any]] = {
            stopped,
            asyncio.create_task(self._read_devices()),
            asyncio.create_task(self._serve(directory, poll_interval)),
        }
        pending = tasks
        try:
            while not stopped.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_devices(self) -> None:
        async for found in self.devices():
            devices = list(found)
            identifiers = [device.id for device in devices]
            if len(set(identifiers)) < len(identifiers):
                raise ValueError(f"{self.resource}: two devices have the same id; ids: {identifiers}")
            async with self._changed:
                self._devices = devices
                self._changed.notify_all()

    async def _serve(self, directory: Path, poll_interval: float) -> None:
        kubelet = directory / messages.KUBELET_SOCKET
        endpoint = f"{self.resource.replace('/', '_')}.sock"
        while True:
            server = UnixServer(directory / endpoint)
            server.add(messages.DEVICE_PLUGIN, _Calls(self))
            try:
                await server.start()
                instance = _instance(kubelet)
                if instance is not None:
                    await self._register(kubelet, endpoint)
                while _instance(kubelet) == instance and _instance(Path(server.path)) is not None:
                    if instance is not None and not self.registered.is_set():
                        await self._register(kubelet, endpoint)
                    await asyncio.sleep(poll_interval)
                if instance is not None:
                    logger.info("kubelet has restarted", extra={"resource": self.resource})
            finally:
                self.registered.clear()
                await server.stop(0)

    async def _register(self, kubelet: Path, endpoint: str) -> None:
        request = messages.RegisterRequest(
            version=messages.VERSION, endpoint=endpoint, resource_name=self.resource, options=self.options
        )
        try:
            async with Channel(kubelet) as channel:
                await channel.call(messages.REGISTER, request, timeout=REGISTER_SECONDS)
        except RPCError as error:
            logger.error(
                "could not register device plug-in", extra={"resource": self.resource, "error": str(error)}
            )
            return
        self.registered.set()
        logger.info("registered device plug-in", extra={"resource": self.resource, "kubelet": str(kubelet)})

    @property
    def options(self) -> messages.DevicePluginOptions:
        """The optional calls that the plug-in implements."""
        return messages.DevicePluginOptions(
            pre_start_required=self._overrides("pre_start_container"),
            get_preferred_allocation_available=self._overrides("get_preferred_allocation"),
        )

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(DevicePlugin, name)

    async def _lists(self) -> AsyncIterator[list[Device]]:
        """Yield the current list of devices, and each later one."""
        sent: list[Device] | None = None
        while True:
            async with self._changed:
                while self._devices is None or self._devices is sent:
                    await self._changed.wait()
                sent = self._devices
            yield sent


class _Calls:
    """The calls of the kubelet, as calls of a `DevicePlugin`."""

    def __init__(self, plugin: DevicePlugin) -> None:
        self._plugin = plugin

    async def get_device_plugin_options(self, request: Empty) -> messages.DevicePluginOptions:
        return self._plugin.options

    async def list_and_watch(self, request: Empty) -> AsyncIterator[messages.ListAndWatchResponse]:
        async for devices in self._plugin._lists():
            yield messages.ListAndWatchResponse(devices=[_message(device) for device in devices])

    async def get_preferred_allocation(
        self, request: messages.PreferredAllocationRequest
    ) -> messages.PreferredAllocationResponse:
        chosen = [
            await self._plugin.get_preferred_allocation(
                each.available_device_ids, each.must_include_device_ids, each.allocation_size
            )
            for each in request.container_requests
        ]
        return messages.PreferredAllocationResponse(
            container_responses=[
                messages.ContainerPreferredAllocationResponse(device_ids=list(ids)) for ids in chosen
            ]
        )

    async def allocate(self, request: messages.AllocateRequest) -> messages.AllocateResponse:
        allocations = [await self._plugin.allocate(each.device_ids) for each in request.container_requests]
        return messages.AllocateResponse(container_responses=allocations)

    async def pre_start_container(self, request: messages.PreStartContainerRequest) -> Empty:
        await self._plugin.pre_start_container(request.device_ids)
        return Empty()


def _message(device: Device) -> messages.DeviceMessage:
    topology = messages.TopologyInfo(nodes=[messages.NUMANode(id=each) for each in device.numa_nodes])
    return messages.DeviceMessage(
        id=device.id,
        health=messages.HEALTHY if device.healthy else messages.UNHEALTHY,
        topology=topology if device.numa_nodes else None,
    )


def _instance(socket: Path) -> tuple[int, int] | None:
    """Identify a socket, as another one of the same path has another identity; `None` if it is missing."""
    with contextlib.suppress(FileNotFoundError):
        found = socket.stat()
        return found.st_ino, found.st_ctime_ns
    return None
