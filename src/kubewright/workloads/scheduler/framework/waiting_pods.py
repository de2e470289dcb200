"""Pods that Permit plug-ins have delayed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kubewright.workloads.scheduler.state.pod_info import PodInfo

from .status import Code, SchedulingStatus


class WaitingPod:
    """A pod with a reserved node that waits for the permission of plug-ins."""

    def __init__(self, pod: PodInfo, node_name: str, timeouts: dict[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self._pending = set(timeouts)
        self._timeouts = timeouts
        self._result: asyncio.Future[SchedulingStatus | None] = asyncio.get_running_loop().create_future()

    @property
    def pending_plugins(self) -> frozenset[str]:
        """Plug-ins that have not allowed the pod yet."""
        return frozenset(self._pending)

    def allow(self, plugin: str) -> None:
        """Give the permission of one plug-in; the pod is bound when all have given theirs."""
        self._pending.discard(plugin)
        if not self._pending and not self._result.done():
            self._result.set_result(None)

    def reject(self, plugin: str, reason: str) -> bool:
        """Reject the pod; it goes back to the queue. Returns whether the pod was still waiting."""
        if self._result.done():
            return False
        self._result.set_result(SchedulingStatus(Code.UNSCHEDULABLE, reason, plugin=plugin))
        return True

    async def wait(self) -> SchedulingStatus | None:
        """Wait for all permissions, a rejection, or the first timeout."""
        timeout = min(self._timeouts.values())
        try:
            async with asyncio.timeout(timeout):
                return await self._result
        except TimeoutError:
            plugin = min(self._pending, key=lambda name: self._timeouts[name])
            return SchedulingStatus(
                Code.UNSCHEDULABLE,
                f"rejected due to timeout after waiting {timeout:g}s at plugin {plugin}",
                plugin=plugin,
            )


class WaitingPods:
    """The waiting pods of a scheduler, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: WaitingPod) -> None:
        """Add a pod."""
        self._pods[pod.pod.uid] = pod

    def remove(self, uid: str) -> None:
        """Remove a pod that does not wait any longer."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """Return a waiting pod, or `None`."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
