"""`NodeInfo`: a node with its pods and the sums over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from kubewright.api.core.v1 import Node, Taint

from .node_selectors import scheduling_taints
from .pod_info import ANY_ADDRESS, AffinityTerm, HostPort, LabelGroup, PodInfo
from .resources import Resources, amounts_of

K = TypeVar("K")
TermKind = Literal["required", "preferred", "preferred-anti"]

ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"


class NodeInfo:
    """A node, its pods, what they request and which host ports they use."""

    __slots__ = (
        "affinity_terms",
        "allocatable",
        "anti_affinity_terms",
        "claim_counts",
        "generation",
        "group_counts",
        "images",
        "labels",
        "name",
        "node",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "preferred_taints",
        "requested",
        "taints",
        "unschedulable",
        "used_ports",
    )

    def __init__(self, node: Node | None = None) -> None:
        self.node: Node | None = None
        self.name = ""
        self.labels: Mapping[str, str] = {}
        self.taints: list[Taint] = []
        """Taints with the effects NoSchedule and NoExecute."""
        self.preferred_taints: list[Taint] = []
        """Taints with the effect PreferNoSchedule."""
        self.unschedulable = False
        self.allocatable = Resources()
        self.images: dict[str, int] = {}
        """Image name to size in bytes."""
        self.pods: dict[str, PodInfo] = {}
        """Pods by uid, including pods that are assumed to be on the node."""
        self.affinity_terms: dict[tuple[TermKind, AffinityTerm], int] = {}
        """Affinity terms and preferred anti-affinity terms, with the number of pods that have them."""
        self.anti_affinity_terms: dict[AffinityTerm, int] = {}
        """Required anti-affinity terms, with the number of pods that have them."""
        self.requested = Resources()
        self.non_zero_cpu = 0
        self.non_zero_memory = 0
        """Sums in which containers without requests count with a default."""
        self.used_ports: dict[HostPort, int] = {}
        self.claim_counts: dict[str, int] = {}
        """PersistentVolumeClaims in use, as `namespace/name`, with the number of pods."""
        self.group_counts: dict[LabelGroup, int] = {}
        """Number of pods by namespace and labels."""
        self.generation = 0
        if node is not None:
            self.set_node(node)

    def set_node(self, node: Node) -> None:
        """Set or replace the node object."""
        self.node = node
        self.name = node.metadata.name or ""
        self.labels = node.metadata.labels or {}
        spec, status = node.spec, node.status
        self.unschedulable = bool(spec and spec.unschedulable)
        self.taints = scheduling_taints(node)
        taints = (spec.taints if spec else None) or ()
        self.preferred_taints = [taint for taint in taints if taint.effect == "PreferNoSchedule"]
        self.allocatable = Resources(amounts_of(status.allocatable if status else None))
        self.images = {
            name: image.size_bytes or 0
            for image in (status.images if status else None) or ()
            for name in image.names or ()
        }

    def add_pod(self, pod: PodInfo) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod
        if pod.has_affinity:
            for key in _term_keys(pod):
                _increment(self.affinity_terms, key)
            for term in pod.anti_affinity_terms:
                _increment(self.anti_affinity_terms, term)
        self.requested.add(pod.requests)
        self.non_zero_cpu += pod.non_zero_cpu
        self.non_zero_memory += pod.non_zero_memory
        _increment(self.group_counts, pod.group)
        for port in pod.host_ports:
            _increment(self.used_ports, port)
        for name in pod.claim_names:
            _increment(self.claim_counts, f"{pod.namespace}/{name}")

    def remove_pod(self, uid: str) -> None:
        """Stop counting a pod; `KeyError` if it is not on the node."""
        pod = self.pods.pop(uid)
        if pod.has_affinity:
            for key in _term_keys(pod):
                _decrement(self.affinity_terms, key)
            for term in pod.anti_affinity_terms:
                _decrement(self.anti_affinity_terms, term)
        self.requested.subtract(pod.requests)
        self.non_zero_cpu -= pod.non_zero_cpu
        self.non_zero_memory -= pod.non_zero_memory
        _decrement(self.group_counts, pod.group)
        for port in pod.host_ports:
            _decrement(self.used_ports, port)
        for name in pod.claim_names:
            _decrement(self.claim_counts, f"{pod.namespace}/{name}")

    def has_port_conflict(self, ports: tuple[HostPort, ...]) -> bool:
        """Whether one of the host ports is in use on an overlapping address."""
        used = self.used_ports
        if not used:
            return False
        for address, protocol, number in ports:
            if address == ANY_ADDRESS:
                if any(other[1] == protocol and other[2] == number for other in used):
                    return True
            elif (address, protocol, number) in used or (ANY_ADDRESS, protocol, number) in used:
                return True
        return False

    def copy(self) -> NodeInfo:
        """Return a copy whose pods can be changed independently; node and pod objects are shared."""
        new = NodeInfo()
        new.node, new.name, new.labels = self.node, self.name, self.labels
        new.taints, new.preferred_taints = self.taints, self.preferred_taints
        new.unschedulable, new.allocatable, new.images = self.unschedulable, self.allocatable, self.images
        new.pods = self.pods.copy()
        new.affinity_terms = self.affinity_terms.copy()
        new.anti_affinity_terms = self.anti_affinity_terms.copy()
        new.requested = self.requested.copy()
        new.non_zero_cpu, new.non_zero_memory = self.non_zero_cpu, self.non_zero_memory
        new.used_ports = self.used_ports.copy()
        new.claim_counts = self.claim_counts.copy()
        new.group_counts = self.group_counts.copy()
        new.generation = self.generation
        return new

    @property
    def zone(self) -> tuple[str, str]:
        """Region and zone."""
        return self.labels.get(REGION_LABEL, ""), self.labels.get(ZONE_LABEL, "")

    def __repr__(self) -> str:
        return f"NodeInfo({self.name!r}, {len(self.pods)} pods)"


def _term_keys(pod: PodInfo) -> list[tuple[TermKind, AffinityTerm]]:
    keys: list[tuple[TermKind, AffinityTerm]] = [("required", term) for term in pod.affinity_terms]
    keys += [("preferred", term) for term in pod.preferred_affinity_terms]
    keys += [("preferred-anti", term) for term in pod.preferred_anti_affinity_terms]
    return keys


def _increment(counts: dict[K, int], key: K) -> None:
    counts[key] = counts.get(key, 0) + 1


def _decrement(counts: dict[K, int], key: K) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
