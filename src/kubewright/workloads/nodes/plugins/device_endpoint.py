"""`DeviceEndpoint`: the connection of a simulated kubelet to one device plug-in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from kubewright.node.devices.messages import (
    ALLOCATE,
    GET_PREFERRED,
    HEALTHY,
    LIST_AND_WATCH,
    PRE_START,
    AllocateRequest,
    Allocation,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from kubewright.node.errors import RPCError
from kubewright.node.messages import Empty
from kubewright.node.rpc import Channel

logger = logging.getLogger(__name__)

CALL_SECONDS: Final = 30.0


class AllocationError(Exception):
    """Devices could not be allocated; the message is that of a kubelet."""


class DeviceEndpoint:
    """A plug-in: its current devices, and the calls to it."""

    def __init__(
        self, resource: str, socket: Path, options: DevicePluginOptions, on_change: Callable[[], None]
    ) -> None:
        self.resource = resource
        self.healthy: frozenset[str] = frozenset()
        self.unhealthy: frozenset[str] = frozenset()
        self.stopped = False
        """Whether the plug-in does not send its devices any more."""
        self._options = options
        self._on_change = on_change
        self._channel = Channel(socket)
        self._watching = asyncio.create_task(self._watch(), name=f"devices of {resource}")

    async def _watch(self) -> None:
        try:
            async for response in self._channel.stream(LIST_AND_WATCH, Empty()):
                self.healthy = frozenset(each.id for each in response.devices if each.health == HEALTHY)
                self.unhealthy = frozenset(each.id for each in response.devices) - self.healthy
                self._on_change()
            reason = "the plug-in has ended the stream"
        except RPCError as error:
            reason = str(error)
        logger.info("device plug-in stopped", extra={"resource": self.resource, "error": reason})
        self._mark_stopped()

    def _mark_stopped(self) -> None:
        self.stopped = True
        self.unhealthy |= self.healthy
        self.healthy = frozenset()
        self._on_change()

    async def close(self) -> None:
        """Close the connection; the devices stay known as unhealthy."""
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._channel.close()
        self.stopped = True

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Return what a container with these devices gets; raise `RPCError` or `AllocationError`."""
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(device_ids=list(ids))])
        response = await self._channel.call(ALLOCATE, request, timeout=CALL_SECONDS)
        if not response.container_responses:
            raise AllocationError("no containers return in allocation response")
        return response.container_responses[0]

    async def preferred(self, available: Collection[str], required: Collection[str], size: int) -> list[str]:
        """Return the devices that the plug-in prefers; empty if it has no preference."""
        if not self._options.get_preferred_allocation_available:
            return []
        choice = ContainerPreferredAllocationRequest(
            available_device_ids=sorted(available),
            must_include_device_ids=sorted(required),
            allocation_size=size,
        )
        request = PreferredAllocationRequest(container_requests=[choice])
        try:
            response = await self._channel.call(GET_PREFERRED, request, timeout=CALL_SECONDS)
        except RPCError as error:
            raise AllocationError(
                f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            ) from None
        return response.container_responses[0].device_ids if response.container_responses else []

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Let the plug-in prepare devices for a start of their container; raise `AllocationError`."""
        if not self._options.pre_start_required:
            return
        request = PreStartContainerRequest(device_ids=list(ids))
        try:
            await self._channel.call(PRE_START, request, timeout=CALL_SECONDS)
        except RPCError as error:
            raise AllocationError(f"device plugin PreStartContainer rpc failed with err: {error}") from None
