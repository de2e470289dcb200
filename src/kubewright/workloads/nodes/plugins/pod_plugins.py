"""`PodPlugins`: what one pod gets of the plug-ins of its node, and when it has to wait for them.

The calls to plug-ins run in the background. The worker of the pod asks for their result, and is woken when it
is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from kubewright.node.devices.messages import Allocation
from kubewright.workloads.nodes.containers.runtime import ContainerStartError
from kubewright.workloads.nodes.registration.node_state import Rejection

from .csi_mounts import MountError, VolumeNotAttached
from .device_endpoint import AllocationError

if TYPE_CHECKING:
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker

    from .node_plugins import KubeletPlugins


RETRY_SECONDS: Final = 0.5
RETRY_LIMIT: Final = 122.0
ATTACH_SECONDS: Final = 0.1
"""Seconds between checks whether a volume is attached."""


class PodPlugins:
    """Plug-ins of one pod."""

    def __init__(self, node: KubeletPlugins, worker: PodWorker) -> None:
        self._node = node
        self._worker = worker
        self._uid = worker.identity.uid
        self._admission: asyncio.Task[Rejection | None] | None = None
        self._mounting: asyncio.Task[None] | None = None
        self._unmounting: asyncio.Task[None] | None = None
        self._starts: dict[str, asyncio.Task[ContainerStartError | None]] = {}

    def _wake(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            self._worker.context.wake(self._worker)

    # Admission

    @property
    def is_admitting(self) -> bool:
        """Whether devices are being, or have been, assigned."""
        return self._admission is not None

    def admit(self) -> Rejection | bool:
        """Return whether the devices of the pod are assigned, or why they cannot be."""
        if self._admission is None:
            if not self._node.devices.manages(self._worker.pod.get("spec") or {}):
                return True
            self._admission = asyncio.create_task(self._allocate())
            self._admission.add_done_callback(self._wake)
            return False
        if not self._admission.done():
            return False
        return self._admission.result() or True

    async def _allocate(self) -> Rejection | None:
        try:
            await self._node.devices.allocate(self._uid, self._worker.pod.get("spec") or {})
        except AllocationError as error:
            message = f"Allocate failed due to {error}, which is unexpected"
            return Rejection("UnexpectedAdmissionError", message)
        return None

    # Volumes

    def mount(self) -> bool:
        """Return whether the CSI volumes of the pod are mounted; they are mounted in the background."""
        if self._mounting is None:
            if not self._node.mounts.is_needed(self._worker.pod.get("spec") or {}):
                return True
            self._mounting = self._node.spawn(self._mount())
            self._mounting.add_done_callback(self._wake)
        return self._mounting.done()

    async def _mount(self) -> None:
        """Mount all volumes; repeat it with back-off until it succeeds."""
        delay = RETRY_SECONDS
        reported = ""
        while True:
            try:
                await self._node.mounts.mount(self._worker.pod)
                await self._node.mounts.expand_pending(self._uid, self._report)
                return
            except VolumeNotAttached:
                await asyncio.sleep(ATTACH_SECONDS)
                continue
            except MountError as error:
                if str(error) != reported:
                    self._worker.context.event(self._worker, "Warning", "FailedMount", str(error))
                    reported = str(error)
            await asyncio.sleep(delay)
            delay = min(RETRY_LIMIT, delay * 2)

    def _report(self, uid: str, kind: str, reason: str, message: str) -> None:
        self._worker.context.event(self._worker, kind, reason, message)

    def unmount(self) -> bool:
        """Return whether the CSI volumes of the pod are unmounted; they are unmounted in the background."""
        if self._unmounting is None:
            if self._mounting is None and not self._node.mounts.has_volumes(self._uid):
                return True
            self._unmounting = self._node.spawn(self._unmount())
            self._unmounting.add_done_callback(self._wake)
        return self._unmounting.done()

    async def _unmount(self) -> None:
        if self._mounting is not None:
            self._mounting.cancel()
            await asyncio.gather(self._mounting, return_exceptions=True)
        delay = RETRY_SECONDS
        while True:
            try:
                await self._node.mounts.unmount(self._uid)
                return
            except MountError as error:
                self._worker.context.event(self._worker, "Warning", "FailedUnMount", str(error))
            await asyncio.sleep(delay)
            delay = min(RETRY_LIMIT, delay * 2)

    # Containers

    def prepare_container(self, name: str) -> bool:
        """Return whether a container can be started; raise `ContainerStartError`.

        Plug-ins that require it are called before each start.
        """
        if not self._node.devices.devices_of(self._uid, name):
            return True
        task = self._starts.get(name)
        if task is None:
            task = self._starts[name] = asyncio.create_task(
                self._checked(self._node.devices.pre_start(self._uid, name))
            )
            task.add_done_callback(self._wake)
            return False
        if not task.done():
            return False
        if error := task.result():
            del self._starts[name]
            raise error
        return True

    async def _checked(self, call: Awaitable[None]) -> ContainerStartError | None:
        try:
            await call
        except AllocationError as error:
            message = f"Internal PreStartContainer hook failed: {error}"
            return ContainerStartError(message, reason="PreStartHookError")
        return None

    def container_started(self, name: str) -> None:
        """Forget the preparation of a container: its next start needs another one."""
        self._starts.pop(name, None)

    def allocation(self, container: str) -> Allocation | None:
        """Return what a container gets with its devices."""
        return self._node.devices.allocation(self._uid, container)
