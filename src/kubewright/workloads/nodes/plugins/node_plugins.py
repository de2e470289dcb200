"""`NodePlugins`: the plug-ins of all simulated nodes, and what they change in Node objects.

plugins = NodePlugins(registration, Path("/tmp/kubelets"))
await plugins.start()                       # node-0 listens in /tmp/kubelets/node-0
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.errors import APIError, NotFound
from kubewright.background import run_forever
from kubewright.node.devices.messages import Allocation
from kubewright.node.plugin_registration import CSI_PLUGIN, DEVICE_PLUGIN, REGISTRY
from kubewright.node.rpc import check_socket_path
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.registration.node_registration import (
    NodeRegistration,
)
from kubewright.workloads.nodes.registration.node_state import NodeState

from .csi_drivers import CSIDrivers
from .csi_mounts import CSIMounts, Report
from .device_manager import DeviceManager
from .plugin_watcher import PluginWatcher
from .pod_plugins import PodPlugins

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
_LONGEST_SOCKET: Final = "device-plugins/kubelet.sock"


class KubeletPlugins:
    """The plug-ins of one node."""

    def __init__(self, node: NodeState, registration: NodeRegistration, directory: Path) -> None:
        self.node = node
        self.directory = directory
        """The directory of the kubelet: `/var/lib/kubelet` on a real node."""
        self._registration = registration
        self._changed = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.devices = DeviceManager(
            directory, on_change=self._changed.set, active_pods=lambda: self.node.pods
        )
        self.drivers = CSIDrivers(node, registration.client)
        self.mounts = CSIMounts(
            node.name, directory, registration.client, self.drivers, on_change=self._changed.set
        )
        self._watcher = PluginWatcher(
            directory / REGISTRY,
            {CSI_PLUGIN: self.drivers.register, DEVICE_PLUGIN: self.devices.register_plugin},
            {CSI_PLUGIN: self.drivers.remove},
        )

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the plug-ins are stopped."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def start(self) -> None:
        """Listen for plug-ins."""
        await self.devices.start()
        self.mounts.read_volumes()
        self._watcher.start()
        self._writing = run_forever(self._write_status, name=f"devices of {self.node.name}")

    async def stop(self) -> None:
        """Close all connections."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._watcher.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.devices.stop()
        await self.drivers.close()

    async def _write_status(self) -> None:
        """Write the number of devices and the used volumes to the Node object, after each change."""
        written: dict[str, Any] = {}
        while True:
            await self._changed.wait()
            self._changed.clear()
            counts = self.devices.counts()
            status = {
                "capacity": {name: str(count.capacity) for name, count in counts.items()},
                "allocatable": {name: str(count.allocatable) for name, count in counts.items()},
                "volumesInUse": self.mounts.in_use(),
            }
            if status == written:
                continue
            try:
                updated = await self._registration.patch_status(self.node.name, status)
            except NotFound:
                continue
            except (APIError, OSError) as error:
                logger.warning(
                    "could not write status of node", extra={"node": self.node.name, "error": str(error)}
                )
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()
                continue
            written = status
            self.node.update(updated)


class NodePlugins:
    """The plug-ins of all nodes."""

    def __init__(self, registration: NodeRegistration, directory: Path) -> None:
        """`directory` gets a directory per node; raises `ValueError` if its path is too long for sockets."""
        self._registration = registration
        self.directory = directory.absolute()
        self.nodes: dict[str, KubeletPlugins] = {}
        """The plug-ins by name of the node."""
        longest = max((spec.name for spec in registration.specs), key=len, default="")
        check_socket_path(self.directory / longest / _LONGEST_SOCKET)

    async def start(self) -> None:
        """Listen for plug-ins of all registered nodes."""
        for name, node in self._registration.nodes.items():
            plugins = self.nodes[name] = KubeletPlugins(node, self._registration, self.directory / name)
            await plugins.start()

    async def stop(self) -> None:
        """Close all connections."""
        for plugins in self.nodes.values():
            await plugins.stop()

    async def restart(self, node: str) -> None:
        """Restart the kubelet of a node, as far as plug-ins notice it: they have to register again."""
        await self.nodes[node].stop()
        await self.nodes[node].start()

    def for_pod(self, worker: PodWorker) -> PodPlugins | None:
        """Return the plug-ins of a pod; `None` on nodes without plug-ins."""
        node = self.nodes.get(worker.node.name)
        return PodPlugins(node, worker) if node is not None else None

    def volume_path(self, node: str, uid: str, volume: str) -> str | None:
        """Return the path of a volume of a pod that a CSI driver has mounted."""
        found = self.nodes.get(node)
        return found.mounts.path(uid, volume) if found is not None else None

    def expand(self, claim: Object, report: Report) -> None:
        """Expand the file system of the volume of a claim, on the nodes where it is mounted."""
        for node in self.nodes.values():
            if node.mounts.is_mounted(claim):
                node.spawn(node.mounts.expand(claim, report))

    def allocation(self, node: str, uid: str, container: str) -> Allocation | None:
        """Return what a container gets with its devices."""
        with contextlib.suppress(KeyError):
            return self.nodes[node].devices.allocation(uid, container)
        return None
