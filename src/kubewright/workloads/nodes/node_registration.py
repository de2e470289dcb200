"""Registration and heartbeats of the simulated nodes.

One task renews the Leases of all nodes, in groups that are spread over the interval, and updates the status
of each node every five minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from kubewright.api.errors import AlreadyExists, APIError, NotFound
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, patches
from kubewright.client.errors import ConnectionFailed

from .node_object import default_pod_cidr, lease_object, node_conditions, node_object, node_status
from .node_spec import DEFAULT_CAPACITY, NodeSpec
from .node_state import NodeState
from .objects import LEASE, LEASE_NAMESPACE, NODE, LoopClock, Object
from .settings import SimulationSettings

logger = logging.getLogger(__name__)

_CONCURRENT: Final = 16
_GROUPS: Final = 10
"""Number of groups in which the Leases of many nodes are renewed."""
_SMALL: Final = 20
"""Up to this many nodes are one group."""
_ERRORS: Final = (APIError, ConnectionFailed, OSError, TimeoutError)


class NodeRegistration:
    """Creates Node objects and Leases, and renews them."""

    def __init__(
        self,
        client: Client,
        clock: LoopClock,
        settings: SimulationSettings,
        nodes: dict[str, NodeState],
        kubelet_port: Callable[[], int],
    ) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings
        self._nodes = nodes
        self._kubelet_port = kubelet_port
        self._leases: set[str] = set()
        self._next_index = 0
        self._status_due: dict[str, float] = {}

    async def register(self, specs: Iterable[NodeSpec]) -> None:
        """Create the Node objects, or set the status of those that exist."""
        limit = asyncio.Semaphore(_CONCURRENT)

        async def register_one(spec: NodeSpec, index: int) -> None:
            async with limit:
                await self._register(spec, index)

        numbered = [(spec, self._index()) for spec in specs]
        await asyncio.gather(*(register_one(spec, index) for spec, index in numbered))

    def _index(self) -> int:
        index, self._next_index = self._next_index, self._next_index + 1
        return index

    async def _register(self, spec: NodeSpec, index: int) -> None:
        node = node_object(spec, index=index, kubelet_port=self._kubelet_port(), stamp=self._clock.stamp())
        try:
            created = (await self._client.create(Unstructured(node))).raw
        except AlreadyExists:
            patch = patches.strategic_merge_patch({"status": node["status"]})
            created = (await self._client.patch(NODE, patch, name=spec.name, subresource="status")).raw
        self._nodes[spec.name] = NodeState(spec.name, created)
        self._status_due[spec.name] = self._clock.time() + self._settings.status_interval
        await self.renew_lease(self._nodes[spec.name])

    async def initialize(self, name: str, node: Object) -> None:
        """Set pod CIDR and status of a Node object that a user has created."""
        index = self._index()
        spec, status = node.get("spec") or {}, node.get("status") or {}
        if not spec.get("podCIDR"):
            cidr = default_pod_cidr(index)
            await self._client.patch(
                NODE, patches.merge_patch({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}), name=name
            )
        from .node_object import default_internal_ip

        capacity = {**DEFAULT_CAPACITY, **(status.get("capacity") or {})}
        change = node_status(
            name,
            capacity=capacity,
            allocatable={**capacity, **(status.get("allocatable") or {})},
            address=default_internal_ip(index),
            kubelet_port=self._kubelet_port(),
            stamp=self._clock.stamp(),
        )
        given = {one.get("type") for one in status.get("addresses") or ()}
        change["addresses"] = [one for one in change["addresses"] if one["type"] not in given]
        patch = patches.strategic_merge_patch({"status": change})
        patched = await self._client.patch(NODE, patch, name=name, subresource="status")
        state = self._nodes.get(name)
        if state is not None:
            state.update(patched.raw)
            self._status_due[name] = self._clock.time() + self._settings.status_interval
            await self.renew_lease(state)

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        interval = self._settings.lease_interval
        while True:
            names = list(self._nodes)
            groups = _GROUPS if len(names) > _SMALL else 1
            for number in range(groups):
                await asyncio.sleep(interval / groups)
                await asyncio.gather(*(self._heartbeat(name) for name in names[number::groups]))

    async def _heartbeat(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or node.failed:
            return
        try:
            await self.renew_lease(node)
            if self._clock.time() >= self._status_due.get(name, 0.0):
                await self.write_status(node)
        except _ERRORS as error:
            logger.warning("could not send node heartbeat", extra={"node": name, "error": str(error)})

    async def renew_lease(self, node: NodeState) -> None:
        """Renew the Lease of a node, or create it."""
        if node.name in self._leases:
            patch = patches.merge_patch({"spec": {"renewTime": self._clock.micro_stamp()}})
            try:
                await self._client.patch(LEASE, patch, name=node.name, namespace=LEASE_NAMESPACE)
                return
            except NotFound:
                self._leases.discard(node.name)
        lease = lease_object(node.name, node.uid, self._clock.micro_stamp())
        try:
            await self._client.create(Unstructured(lease))
        except AlreadyExists:
            patch = patches.merge_patch(
                {"metadata": {"ownerReferences": lease["metadata"]["ownerReferences"]}, "spec": lease["spec"]}
            )
            await self._client.patch(LEASE, patch, name=node.name, namespace=LEASE_NAMESPACE)
        self._leases.add(node.name)

    async def write_status(self, node: NodeState) -> None:
        """Write the conditions of a node."""
        self._status_due[node.name] = self._clock.time() + self._settings.status_interval
        conditions = node_conditions(self._clock.stamp(), node.conditions, node.pressure)
        patch = patches.strategic_merge_patch({"status": {"conditions": conditions}})
        await self._client.patch(NODE, patch, name=node.name, subresource="status")

    def forget(self, name: str) -> None:
        """Stop heartbeats of a node whose object was deleted."""
        self._leases.discard(name)
        self._status_due.pop(name, None)


__all__ = ["NodeRegistration"]
