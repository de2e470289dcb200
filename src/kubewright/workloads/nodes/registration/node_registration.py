"""Registration and heartbeats of the simulated nodes.

    registration = NodeRegistration(connection.client("system:node"), load_nodes(3))
    await registration.start()

It needs no cache and no manager, so that an idle cluster only costs its heartbeats. One task renews the
Leases of all nodes, in groups that are spread over the interval, and updates the status of each node every
five minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import APIError, Conflict, NotFound
from kubewright.api.gvk import GroupVersionResource
from kubewright.background import run_forever
from kubewright.client.patches import merge_patch, strategic_merge_patch
from kubewright.workloads.nodes.kubelet_api.listener import KubeletListener
from kubewright.workloads.nodes.objects import LEASE_NAMESPACE, LoopClock, Object
from kubewright.workloads.nodes.settings import SimulationSettings

from .node_object import (
    default_internal_ip,
    default_pod_cidr,
    lease_object,
    node_conditions,
    node_object,
    node_status,
)
from .node_spec import DEFAULT_CAPACITY, NodeSpec
from .node_state import NodeState

if TYPE_CHECKING:
    from kubewright.client.client import Client

logger = logging.getLogger(__name__)

NODES: Final = GroupVersionResource("", "v1", "nodes")
LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases")
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
RETRY_SECONDS: Final = 1.0
_CONCURRENT: Final = 16
_GROUPS: Final = 10
"""Number of groups in which the Leases of many nodes are renewed."""
_SMALL: Final = 20
"""Up to this many nodes are one group."""


class NodeRegistration:
    """Creates Node objects and Leases, and renews them."""

    def __init__(
        self,
        client: Client,
        specs: Iterable[NodeSpec] = (),
        *,
        settings: SimulationSettings | None = None,
        kubelet_port: int = 0,
    ) -> None:
        """`kubelet_port` 0 chooses a free port."""
        self.settings = settings if settings is not None else SimulationSettings()
        self.specs = list(specs)
        self.nodes: dict[str, NodeState] = {}
        """The simulated nodes by name."""
        self.clock = LoopClock()
        self.client = client
        self.listener: KubeletListener | None = None
        """The port of the kubelet API; open while the registration runs."""
        self.kubelet_version = ""
        """Version that the kubelets report: that of the API server."""
        self._port = kubelet_port
        self._leases: set[str] = set()
        self._next_index = 0
        self._status_due: dict[str, float] = {}
        self._heartbeats: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the port, register the nodes and start the heartbeats."""
        self.listener = KubeletListener(self._port)
        self._port = self.listener.port
        while True:
            try:
                await self._register_all()
                break
            except (APIError, OSError) as error:
                logger.warning("could not register nodes, retrying", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
        self._heartbeats = run_forever(self._send_heartbeats, name="node heartbeats")

    async def stop(self) -> None:
        """Stop the heartbeats and close the port; the Node objects stay."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
            self._heartbeats = None
        if self.listener is not None:
            await self.listener.stop()
            self.listener = None

    async def _register_all(self) -> None:
        limit = asyncio.Semaphore(_CONCURRENT)
        self.kubelet_version = str((await self.client.version()).get("gitVersion") or "")

        async def register_one(spec: NodeSpec, index: int) -> None:
            async with limit:
                await self._register(spec, index)

        missing = [(spec, index) for index, spec in enumerate(self.specs) if spec.name not in self.nodes]
        self._next_index = max(self._next_index, len(self.specs))
        await asyncio.gather(*(register_one(spec, index) for spec, index in missing))

    async def _register(self, spec: NodeSpec, index: int) -> None:
        node = node_object(
            spec,
            index=index,
            kubelet_port=self._port,
            stamp=self.clock.stamp(),
            version=self.kubelet_version,
        )
        try:
            created = await self.client.create(dict(node))
        except Conflict:
            created = await self.patch_status(spec.name, node["status"])
        created = await self._remove_startup_taint(created)
        state = self.nodes[spec.name] = NodeState(spec.name, created)
        self._status_due[spec.name] = self.clock.time() + self.settings.status_interval
        await self.renew_lease(state)

    async def _remove_startup_taint(self, node: Object) -> Object:
        """Remove the taint that the API server adds to new nodes.

        The node is ready already, and the controller that would remove the taint starts with the first pod.
        """
        taints = (node.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") != NOT_READY_TAINT]
        if len(kept) == len(taints):
            return node
        return await self._patch(node["metadata"]["name"], {"spec": {"taints": kept or None}})

    async def _patch(self, name: str, change: Object) -> Object:
        return (await self.client.patch(NODES, name, merge_patch(change))).raw

    async def patch_status(self, name: str, status: Object) -> Object:
        """Change the status of a node by a strategic merge patch; return the node."""
        patch = strategic_merge_patch({"status": status})
        return (await self.client.patch(NODES, name, patch, subresource="status")).raw

    async def initialize(self, name: str, node: Object) -> None:
        """Set pod CIDR and status of a Node object that a user has created."""
        index, self._next_index = self._next_index, self._next_index + 1
        spec, status = node.get("spec") or {}, node.get("status") or {}
        if not spec.get("podCIDR"):
            cidr = default_pod_cidr(index)
            change = {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}
            await self._patch(name, change)
        capacity = {**DEFAULT_CAPACITY, **(status.get("capacity") or {})}
        found = node_status(
            name,
            capacity=capacity,
            allocatable={**capacity, **(status.get("allocatable") or {})},
            address=default_internal_ip(index),
            kubelet_port=self._port,
            version=self.kubelet_version,
            stamp=self.clock.stamp(),
        )
        given = {one.get("type") for one in status.get("addresses") or ()}
        found["addresses"] = [one for one in found["addresses"] if one["type"] not in given]
        patched = await self.patch_status(name, found)
        state = self.nodes.get(name)
        if state is not None:
            state.update(patched)
            self._status_due[name] = self.clock.time() + self.settings.status_interval
            await self.renew_lease(state)

    async def _send_heartbeats(self) -> None:
        interval = self.settings.lease_interval
        while True:
            names = list(self.nodes)
            groups = _GROUPS if len(names) > _SMALL else 1
            for number in range(groups):
                await asyncio.sleep(interval / groups)
                await asyncio.gather(*(self._heartbeat(name) for name in names[number::groups]))

    async def _heartbeat(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is None or node.failed:
            return
        try:
            await self.renew_lease(node)
            if self.clock.time() >= self._status_due.get(name, 0.0):
                await self.write_status(node)
        except NotFound:
            logger.debug("node was deleted", extra={"node": name})
        except (APIError, OSError) as error:
            logger.warning("could not send node heartbeat", extra={"node": name, "error": str(error)})

    async def renew_lease(self, node: NodeState) -> None:
        """Renew the Lease of a node, or create it."""
        lease = lease_object(node.name, node.uid, self.clock.micro_stamp())
        if node.name in self._leases:
            change: Object = {"spec": {"renewTime": lease["spec"]["renewTime"]}}
            try:
                await self._patch_lease(node.name, change)
                return
            except NotFound:
                self._leases.discard(node.name)
        try:
            await self.client.create(dict(lease))
        except Conflict:
            owners = lease["metadata"]["ownerReferences"]
            await self._patch_lease(
                node.name, {"metadata": {"ownerReferences": owners}, "spec": lease["spec"]}
            )
        self._leases.add(node.name)

    async def _patch_lease(self, name: str, change: Object) -> None:
        await self.client.patch(LEASES, name, merge_patch(change), namespace=LEASE_NAMESPACE)

    async def write_status(self, node: NodeState) -> None:
        """Write the conditions of a node."""
        self._status_due[node.name] = self.clock.time() + self.settings.status_interval
        await self.patch_status(
            node.name, {"conditions": node_conditions(self.clock.stamp(), node.conditions, node.pressure)}
        )

    def forget(self, name: str) -> None:
        """Stop the heartbeats of a node whose object was deleted."""
        self.nodes.pop(name, None)
        self._leases.discard(name)
        self._status_due.pop(name, None)
