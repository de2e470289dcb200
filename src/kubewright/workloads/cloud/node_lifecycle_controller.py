"""Nodes whose instance does not run (`cloud-node-lifecycle-controller`).

The instance of a node that is not ready is checked every five seconds: if it does not exist, the node is
deleted; if it is shut down, the node gets the taint `shutdown`. The taint is removed when the node is ready.

Permissions: get, list, watch, patch and delete of Nodes; create and patch of Events.
"""

from __future__ import annotations

import logging
from typing import Final

from kubewright.api.core.v1 import Node
from kubewright.api.encoding.codec import decoder
from kubewright.api.errors import APIError, Conflict, NotFound
from kubewright.api.meta import ObjectReference
from kubewright.api.objects import Struct
from kubewright.cache.stores.store import CacheEntry, ObjectChange
from kubewright.controller import Controller, ControllerBuilder, Request, Result
from kubewright.controller.manager_protocol import ManagerProtocol
from kubewright.manager.events import EventRecorder

from .node_taints import SHUTDOWN, add_taint, remove_taint
from .provider import InstanceNotFound, Instances

logger = logging.getLogger(__name__)

NAME: Final = "cloud-node-lifecycle-controller"
MONITOR_PERIOD: Final = 5.0
"""Seconds between checks of the instance of a node that is not ready."""


class _ConditionView(Struct):
    type: str | None = None
    status: str | None = None


class _StatusView(Struct):
    conditions: list[_ConditionView] | None = None


class _NodeView(Struct):
    status: _StatusView | None = None


_decode_view = decoder(_NodeView).decode


class NodeLifecycleController:
    """Deletes nodes without an instance, and taints nodes whose instance is shut down."""

    def __init__(
        self,
        manager: ManagerProtocol,
        recorder: EventRecorder,
        instances: Instances,
        *,
        period: float = MONITOR_PERIOD,
    ) -> None:
        """`period`: seconds between checks of a node that is not ready."""
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._instances = instances
        self._period = period

    def add(self) -> Controller[Request]:
        """Add the controller to the manager."""
        builder: ControllerBuilder[Request] = ControllerBuilder(self._manager, NAME)
        return builder.watches(Node, handler=self._on_node).complete(self.reconcile)

    def _on_node(self, change: ObjectChange) -> tuple[Request, ...]:
        """Enqueue new nodes, and nodes whose readiness has changed."""
        if change.new is None or (change.old is not None and _ready(change.old) == _ready(change.new)):
            return ()
        return (Request("", change.key.name),)

    async def reconcile(self, request: Request) -> Result | None:
        """Check the instance of one node, if the node is not ready."""
        node = await self._client.get_or_none(Node, request.name)
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        again = Result(requeue_after=self._period)
        conditions = (node.status.conditions if node.status is not None else None) or ()
        try:
            if any(one.type == "Ready" and one.status == "True" for one in conditions):
                await remove_taint(self._client, node, SHUTDOWN)
                return None
            try:
                if not await self._exists(node):
                    return None if await self._delete(node) else again
                shut_down = await self._instances.is_shut_down(node)
            except Exception as error:
                logger.warning(
                    "could not check instance of node", extra={"node": node.name, "error": str(error)}
                )
                return again
            if shut_down:
                await add_taint(self._client, node, SHUTDOWN)
        except (Conflict, NotFound):
            pass
        return again

    async def _exists(self, node: Node) -> bool:
        try:
            return await self._instances.exists(node)
        except InstanceNotFound:
            return False

    async def _delete(self, node: Node) -> bool:
        about = ObjectReference(api_version="v1", kind="Node", name=node.name, uid=node.metadata.uid)
        text = f"Deleting node {node.name} because it does not exist in the cloud provider"
        self._recorder.event(about, "Normal", "DeletingNode", text)
        try:
            await self._client.delete(Node, node.name)
        except NotFound:
            return True
        except APIError as error:
            text = f"Failed deleting node {node.name}: {error}"
            self._recorder.event(about, "Warning", "DeletingNodeFailed", text)
            return False
        logger.info("deleted node without instance", extra={"node": node.name})
        return True


def _ready(entry: CacheEntry) -> str:
    status = _decode_view(entry.raw).status
    conditions = (status.conditions if status is not None else None) or ()
    return next((one.status or "" for one in conditions if one.type == "Ready"), "")
