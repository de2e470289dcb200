"""TaintToleration: rejects nodes with taints that the pod does not tolerate, and scores PreferNoSchedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubewright.api.core.v1 import Node, Pod, Toleration
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.plugin import Plugin, normalize_by_maximum
from kubewright.workloads.scheduler.framework.status import SKIP, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.node_selectors import find_untolerated, scheduling_taints, tolerates
from kubewright.workloads.scheduler.state.pod_info import PodInfo


class _Tolerations(tuple[Toleration, ...]):
    """Tolerations of the pod that apply to PreferNoSchedule."""


class TaintToleration(Plugin):
    """Taints NoSchedule and NoExecute exclude nodes; taints PreferNoSchedule lower their score."""

    def events(self) -> Iterable[ClusterEvent]:
        """A node is added or loses taints, or the pod gets a toleration."""
        return (
            ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_TAINT, self._after_node_change),
            ClusterEvent("Pod", Action.UPDATE_POD_TOLERATION, self._after_pod_change),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        tolerations = _tolerations(pod)
        was_untolerated = old is None or find_untolerated(tolerations, scheduling_taints(old)) is not None
        if new is None:
            return Hint.SKIP
        is_untolerated = find_untolerated(tolerations, scheduling_taints(new)) is not None
        return Hint.QUEUE if was_untolerated and not is_untolerated else Hint.SKIP

    def _after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        return Hint.QUEUE if new is not None and new.metadata.uid == pod.uid else Hint.SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Reject a node with a taint that is not tolerated."""
        if not node.taints or find_untolerated(_tolerations(pod), node.taints) is None:
            return None
        return SchedulingStatus.unresolvable("node(s) had untolerated taint(s)")

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Skip if no node has PreferNoSchedule taints: all scores would be the same."""
        if not any(node.preferred_taints for node in nodes):
            return SKIP
        state.write(
            _Tolerations,
            _Tolerations(each for each in _tolerations(pod) if each.effect in (None, "", "PreferNoSchedule")),
        )
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Count the PreferNoSchedule taints that are not tolerated."""
        if not node.preferred_taints:
            return 0
        tolerations = state.read(_Tolerations)
        return sum(
            not any(tolerates(toleration, taint) for toleration in tolerations)
            for taint in node.preferred_taints
        )

    def normalize_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> list[int]:
        """Fewer taints give a higher score."""
        return normalize_by_maximum(scores, reverse=True)


def _tolerations(pod: PodInfo) -> Sequence[Toleration]:
    spec = pod.pod.spec
    return (spec.tolerations if spec else None) or ()
