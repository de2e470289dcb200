"""Pod CIDRs of nodes (`node-ipam-controller`).

Each node gets a part of `--cluster-cidr`, one per IP family, unless it has one already. The parts in use are
those of the existing Node objects, so a part is free again when its node is deleted; the search continues
after the last one that was assigned.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from kubewright.api.core.v1 import Node
from kubewright.api.errors import NotFound
from kubewright.client.patches import merge_patch
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager

MASK_SIZES = {4: 24, 6: 64}
"""Prefix lengths of the parts, by IP version."""
RETRY_SECONDS = 30.0

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def add_node_ipam_controller(manager: ComponentManager) -> None:
    """Add the controller that assigns pod CIDRs."""
    ranges = [PodRange(text) for text in manager.workloads.cluster_cidrs]

    async def reconcile(node: Node) -> Result | None:
        if node.metadata.deletion_timestamp is not None or pod_cidrs(node):
            return None
        used = [text for each in await manager.client.list(Node) for text in pod_cidrs(each)]
        parts = [each.next_free(used) for each in ranges]
        if None in parts:
            message = f"Node {node.name} status is now: CIDRNotAvailable"
            manager.recorder.event(node, "Normal", "CIDRNotAvailable", message)
            return Result(requeue_after=RETRY_SECONDS)
        change = {"spec": {"podCIDR": parts[0], "podCIDRs": parts}}
        try:
            await manager.client.patch(Node, node.name, merge_patch(change))
        except NotFound:
            return None
        return None

    ControllerBuilder[Request](manager, "node-ipam-controller").for_(Node).complete(reconcile)


def pod_cidrs(node: Node) -> Sequence[str]:
    """Return the pod CIDRs of a node."""
    spec = node.spec
    if spec is None:
        return ()
    return spec.pod_cidrs or ((spec.pod_cidr,) if spec.pod_cidr else ())


class PodRange:
    """A range that is divided among nodes."""

    def __init__(self, text: str) -> None:
        network: Network = ipaddress.ip_network(text)
        self._network = network
        self._size = max(MASK_SIZES[network.version], network.prefixlen)
        self._count = 1 << (self._size - network.prefixlen)
        self._next = 0

    def next_free(self, used: Iterable[str]) -> str | None:
        """Return a part that overlaps no used one; `None` without one."""
        taken = [other for text in used if (other := _parse(text)) is not None]
        taken = [other for other in taken if other.version == self._network.version]
        for number in range(self._next, self._next + self._count):
            part = self._part(number % self._count)
            if not any(part.overlaps(other) for other in taken):
                self._next = (number + 1) % self._count
                return str(part)
        return None

    def _part(self, number: int) -> Network:
        bits = self._network.max_prefixlen - self._size
        first = int(self._network.network_address) + (number << bits)
        kind = ipaddress.IPv4Network if self._network.version == 4 else ipaddress.IPv6Network
        return kind((first, self._size))


def _parse(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
