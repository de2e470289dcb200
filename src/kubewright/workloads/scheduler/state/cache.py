"""`SchedulerCache` and `Snapshot`: the state of the cluster that a scheduling cycle reads.

The cache is updated by informers and by decisions of the scheduler that are not yet visible in the API
(*assumed* pods). A snapshot is a consistent copy for one cycle. Updating it copies only the nodes that have
changed since the previous cycle, usually the one that received the last pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from kubewright.api.core.v1 import Node
from kubewright.api.selectors.label_selectors import Selector

from .node_info import NodeInfo
from .pod_info import LabelGroup, PodInfo


class SchedulerCache:
    """Nodes with their pods, and assumed pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        self._changed: dict[str, None] = {}
        self._topology_generation = 1
        self._generation = 0
        self._groups: dict[str, dict[LabelGroup, int]] = {}
        self.image_nodes: dict[str, int] = {}
        """Image name to the number of nodes that have it."""

    def _touch(self, name: str) -> NodeInfo:
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo()
            info.name = name
        self._generation += 1
        info.generation = self._generation
        self._changed[name] = None
        return info

    # Nodes

    def set_node(self, node: Node) -> None:
        """Add or update a node."""
        info = self._touch(node.metadata.name or "")
        old_zone, existed = info.zone, info.node is not None
        self._count_images(info, -1)
        info.set_node(node)
        self._count_images(info, 1)
        if not existed or info.zone != old_zone:
            self._topology_generation += 1

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay until they are deleted."""
        info = self._nodes.get(name)
        if info is None or info.node is None:
            return
        self._touch(name)
        self._count_images(info, -1)
        info.node = None
        info.images = {}
        self._topology_generation += 1
        if not info.pods:
            del self._nodes[name]

    def _count_images(self, info: NodeInfo, change: int) -> None:
        for image in info.images:
            count = self.image_nodes.get(image, 0) + change
            if count > 0:
                self.image_nodes[image] = count
            else:
                self.image_nodes.pop(image, None)

    def node(self, name: str) -> Node | None:
        """Return a node object."""
        info = self._nodes.get(name)
        return info.node if info is not None else None

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return sum(1 for info in self._nodes.values() if info.node is not None)

    # Pods

    def pod(self, uid: str) -> PodInfo | None:
        """Return a pod that is, or is assumed to be, on a node."""
        return self._pods.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is assumed to be on a node, but the API has not confirmed it."""
        return uid in self._assumed

    def set_pod(self, pod: PodInfo) -> None:
        """Add or update a pod that is bound to a node."""
        self._assumed.discard(pod.uid)
        self._remove(pod.uid)
        self._add(pod)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod that was deleted or has finished."""
        self._assumed.discard(uid)
        self._remove(uid)

    def assume(self, pod: PodInfo) -> None:
        """Count a pod on `pod.node_name` before it is bound."""
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.key} is already on a node")
        self._add(pod)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Undo `assume`; a pod that is already bound stays."""
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._remove(uid)

    def _add(self, pod: PodInfo) -> None:
        self._touch(pod.node_name).add_pod(pod)
        self._pods[pod.uid] = pod
        groups = self._groups.setdefault(pod.namespace, {})
        groups[pod.group] = groups.get(pod.group, 0) + 1

    def _remove(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        info = self._touch(pod.node_name)
        info.remove_pod(uid)
        if info.node is None and not info.pods:
            del self._nodes[pod.node_name]
        groups = self._groups[pod.namespace]
        left = groups[pod.group] - 1
        if left:
            groups[pod.group] = left
        else:
            del groups[pod.group]
            if not groups:
                del self._groups[pod.namespace]

    # Snapshot

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Copy the nodes that have changed since the last call into a snapshot.

        A cache has one snapshot.
        """
        for name in self._changed:
            info = self._nodes.get(name)
            if info is None or info.node is None:
                snapshot.remove(name)
            else:
                snapshot.put(info.copy())
        self._changed.clear()
        snapshot.groups = self._groups
        snapshot.image_nodes = self.image_nodes
        if snapshot.topology_generation != self._topology_generation:
            snapshot.topology_generation = self._topology_generation
            snapshot.order(name for name, info in self._nodes.items() if info.node is not None)


class Snapshot:
    """Nodes as they were at the start of a scheduling cycle."""

    def __init__(self) -> None:
        self.by_name: dict[str, NodeInfo] = {}
        self.nodes: list[NodeInfo] = []
        """All nodes; nodes of different zones alternate."""
        self.affinity_nodes: dict[str, NodeInfo] = {}
        """Nodes that have pods with affinity terms or preferred anti-affinity terms."""
        self.anti_affinity_nodes: dict[str, NodeInfo] = {}
        """Nodes that have pods with required anti-affinity terms."""
        self.groups: dict[str, dict[LabelGroup, int]] = {}
        """Label groups of the pods in the cluster, by namespace, with the number of pods."""
        self.image_nodes: dict[str, int] = {}
        self.topology_generation = 0
        self._positions: dict[str, int] = {}

    def put(self, info: NodeInfo) -> None:
        """Replace a node."""
        name = info.name
        self.by_name[name] = info
        position = self._positions.get(name)
        if position is not None:
            self.nodes[position] = info
        _set(self.affinity_nodes, info, bool(info.affinity_terms))
        _set(self.anti_affinity_nodes, info, bool(info.anti_affinity_terms))

    def remove(self, name: str) -> None:
        """Remove a node; `order` has to be called afterwards."""
        self.by_name.pop(name, None)
        self.affinity_nodes.pop(name, None)
        self.anti_affinity_nodes.pop(name, None)

    def order(self, names: Iterator[str]) -> None:
        """List the nodes so that a part of the list contains nodes of all zones."""
        zones: dict[tuple[str, str], list[NodeInfo]] = {}
        for name in names:
            info = self.by_name[name]
            zones.setdefault(info.zone, []).append(info)
        if len(zones) == 1:
            self.nodes = next(iter(zones.values()))
        else:
            self.nodes = [info for row in zip_longest(*zones.values()) for info in row if info is not None]
        self._positions = {info.name: index for index, info in enumerate(self.nodes)}

    def __len__(self) -> int:
        return len(self.nodes)

    def select_groups(self, namespace: str, selector: Selector) -> frozenset[LabelGroup]:
        """Return the groups of pods that a selector matches, without terminating pods."""
        return frozenset(
            group
            for group in self.groups.get(namespace, ())
            if not group.terminating and selector.matches(group.labels)
        )

    def is_claim_used(self, key: str) -> bool:
        """Whether a pod on any node uses a PersistentVolumeClaim."""
        return any(key in info.claim_counts for info in self.nodes)


def count_pods(node: NodeInfo, groups: frozenset[LabelGroup]) -> int:
    """Return the number of pods on a node that belong to one of the groups."""
    counts = node.group_counts
    if len(groups) == 1:
        (group,) = groups
        return counts.get(group, 0)
    if len(groups) <= len(counts):
        return sum([counts[group] for group in groups if group in counts])
    return sum([count for group, count in counts.items() if group in groups])


def _set(nodes: dict[str, NodeInfo], info: NodeInfo, included: bool) -> None:
    if included:
        nodes[info.name] = info
    else:
        nodes.pop(info.name, None)
