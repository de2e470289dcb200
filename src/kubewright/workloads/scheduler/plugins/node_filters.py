"""Plug-ins that look at one field of the pod or node: SchedulingGates, PrioritySort, NodeUnschedulable,
NodeName and NodePorts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kubewright.api.core.v1 import Node, Pod, Taint
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.plugin import Plugin
from kubewright.workloads.scheduler.framework.status import SKIP, SchedulingStatus
from kubewright.workloads.scheduler.queue import QueuedPod
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.node_selectors import tolerates
from kubewright.workloads.scheduler.state.pod_info import PodInfo

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class SchedulingGates(Plugin):
    """Keeps pods with scheduling gates out of the active queue."""

    def events(self) -> Iterable[ClusterEvent]:
        """Gates of the pod itself are removed."""
        return (ClusterEvent("Pod", Action.UPDATE_POD_GATES_ELIMINATED, _same_pod),)

    def pre_enqueue(self, pod: PodInfo) -> SchedulingStatus | None:
        """Reject pods with gates."""
        spec = pod.pod.spec
        if spec is None or not spec.scheduling_gates:
            return None
        gates = " ".join(gate.name or "" for gate in spec.scheduling_gates)
        return SchedulingStatus.unresolvable(f"waiting for scheduling gates: [{gates}]")


class PrioritySort(Plugin):
    """Orders the active queue by priority, then by the time at which pods were added to it."""

    def events(self) -> Iterable[ClusterEvent]:
        """No pod is rejected."""
        return ()

    def sort_key(self, pod: QueuedPod) -> Any:
        """Higher priority first, then older."""
        return -pod.info.priority, pod.timestamp


class NodeUnschedulable(Plugin):
    """Rejects nodes that are cordoned, unless the pod tolerates the taint of cordoned nodes."""

    def events(self) -> Iterable[ClusterEvent]:
        """A node is added or uncordoned, or the pod gets a toleration."""
        return (
            ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_TAINT, self._after_node_change),
            ClusterEvent("Pod", Action.UPDATE_POD_TOLERATION, _same_pod),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        is_schedulable = new is not None and not (new.spec and new.spec.unschedulable)
        was_schedulable = old is not None and not (old.spec and old.spec.unschedulable)
        return Hint.QUEUE if is_schedulable and not was_schedulable else Hint.SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Reject a cordoned node."""
        if not node.unschedulable:
            return None
        spec = pod.pod.spec
        if any(tolerates(each, UNSCHEDULABLE_TAINT) for each in (spec.tolerations if spec else None) or ()):
            return None
        return SchedulingStatus.unresolvable("node(s) were unschedulable")


class NodeName(Plugin):
    """Rejects all nodes but the one in `spec.nodeName`."""

    def events(self) -> Iterable[ClusterEvent]:
        """A node is added."""
        return (ClusterEvent("Node", Action.ADD),)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Compare the names."""
        if not pod.node_name or pod.node_name == node.name:
            return None
        return SchedulingStatus.unresolvable("node(s) didn't match the requested node name")


class NodePorts(Plugin):
    """Rejects nodes on which a requested host port is in use."""

    def events(self) -> Iterable[ClusterEvent]:
        """A pod that uses one of the ports is deleted, or a node is added."""
        return (
            ClusterEvent("Pod", Action.DELETE, self._after_pod_deletion),
            ClusterEvent("Node", Action.ADD),
        )

    def _after_pod_deletion(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        if old is None:
            return Hint.QUEUE
        node = NodeInfo()
        node.add_pod(PodInfo(old))
        return Hint.QUEUE if node.has_port_conflict(pod.host_ports) else Hint.SKIP

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Skip pods without host ports."""
        return None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Compare the host ports with those in use."""
        if node.has_port_conflict(pod.host_ports):
            return SchedulingStatus.unschedulable(
                "node(s) didn't have free ports for the requested pod ports"
            )
        return None


def _same_pod(pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
    """Hint for updates that only matter to the updated pod."""
    return Hint.QUEUE if new is not None and new.metadata.uid == pod.uid else Hint.SKIP
