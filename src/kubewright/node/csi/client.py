"""`CSIClient`: a connection to a CSI driver, with its name and capabilities.

Used by the controllers of this package and by simulated kubelets, for drivers in any language.
"""

from __future__ import annotations

import os
from typing import Final, Self, TypeVar

from kubewright.node.errors import Unavailable
from kubewright.node.messages import Empty, Message
from kubewright.node.rpc import Channel, Method

from .messages import ControllerCall, NodeCall, PluginService
from .services import (
    CONTROLLER_GET_CAPABILITIES,
    GET_PLUGIN_CAPABILITIES,
    GET_PLUGIN_INFO,
    NODE_GET_CAPABILITIES,
    PROBE,
)

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

CONNECT_SECONDS: Final = 30.0
CALL_SECONDS: Final = 60.0


class CSIClient:
    """A driver; `connect` reads what it supports."""

    def __init__(self, endpoint: str | os.PathLike[str]) -> None:
        self._channel = Channel(endpoint)
        self.name = ""
        """Name of the driver."""
        self.version = ""
        self.controller_calls: frozenset[int] = frozenset()
        """Capabilities of the controller service (`ControllerCall`); empty without the service."""
        self.node_calls: frozenset[int] = frozenset()
        """Capabilities of the node service (`NodeCall`)."""
        self.has_topology = False
        """Whether volumes are accessible from a part of the cluster only."""

    async def connect(self, *, node: bool = False, timeout: float = CONNECT_SECONDS) -> Self:
        """Wait until the driver is ready and read its capabilities; raise `RPCError` or `TimeoutError`.

        With `node`, those of the node service too.
        """
        await self._channel.wait_until_ready(timeout)
        probe = await self.call(PROBE, Empty())
        if probe.ready is not None and not probe.ready.value:
            raise Unavailable("the driver is not ready")
        info = await self.call(GET_PLUGIN_INFO, Empty())
        self.name, self.version = info.name, info.vendor_version
        found = await self.call(GET_PLUGIN_CAPABILITIES, Empty())
        services = {each.service.type for each in found.capabilities if each.service is not None}
        self.has_topology = PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS in services
        if PluginService.CONTROLLER_SERVICE in services:
            calls = await self.call(CONTROLLER_GET_CAPABILITIES, Empty())
            self.controller_calls = frozenset(
                each.rpc.type for each in calls.capabilities if each.rpc is not None
            )
        if node:
            node_calls = await self.call(NODE_GET_CAPABILITIES, Empty())
            self.node_calls = frozenset(
                each.rpc.type for each in node_calls.capabilities if each.rpc is not None
            )
        return self

    async def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout: float = CALL_SECONDS
    ) -> ResponseT:
        """Call a method; raise `RPCError`."""
        return await self._channel.call(method, request, timeout=timeout)

    def supports(self, call: ControllerCall) -> bool:
        """Whether the controller service implements a call."""
        return call in self.controller_calls

    def supports_on_node(self, call: NodeCall) -> bool:
        """Whether the node service implements a call."""
        return call in self.node_calls

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()
