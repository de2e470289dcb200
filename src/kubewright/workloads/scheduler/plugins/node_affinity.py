"""NodeAffinity: node selector, required and preferred node affinity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubewright.api.core.v1 import Node
from kubewright.api.core.v1 import NodeAffinity as NodeAffinityTerms
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import Plugin, normalize_by_maximum
from kubewright.workloads.scheduler.framework.status import SKIP, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.node_selectors import (
    NodeTest,
    RequiredNodeAffinity,
    compile_preferences,
    compile_selector,
)
from kubewright.workloads.scheduler.state.pod_info import PodInfo


class _Preferences(list[tuple[int, NodeTest]]):
    """Weights and tests of the preferred terms."""


class NodeAffinity(Plugin):
    """Node selector and node affinity of the pod, and an affinity that the profile adds to all pods."""

    def __init__(self, handle: Handle, added_affinity: NodeAffinityTerms | None = None) -> None:
        super().__init__(handle)
        required = (
            added_affinity.required_during_scheduling_ignored_during_execution if added_affinity else None
        )
        preferred = (
            added_affinity.preferred_during_scheduling_ignored_during_execution if added_affinity else None
        )
        self._added_required = compile_selector(required) if required is not None else None
        self._added_preferences = compile_preferences(preferred or ())

    def events(self) -> Iterable[ClusterEvent]:
        """A node is added, or its labels begin to match."""
        return (ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change),)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        required = RequiredNodeAffinity(pod.pod)
        if new is None or not self._matches(required, new):
            return Hint.SKIP
        return Hint.SKIP if old is not None and self._matches(required, old) else Hint.QUEUE

    def _matches(self, required: RequiredNodeAffinity, node: Node) -> bool:
        labels, name = node.metadata.labels or {}, node.metadata.name or ""
        if self._added_required is not None and not self._added_required(labels, name):
            return False
        return required.matches(labels, name)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | frozenset[str] | None:
        """Skip pods without requirements; restrict the nodes if all terms name nodes."""
        required = RequiredNodeAffinity(pod.pod)
        if required.is_empty and self._added_required is None:
            return SKIP
        state.write(RequiredNodeAffinity, required)
        names = _required_names(pod)
        if names is None:
            return None
        return names or SchedulingStatus.unresolvable("pod affinity terms conflict")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Reject nodes that do not match."""
        if self._added_required is not None and not self._added_required(node.labels, node.name):
            return SchedulingStatus.unresolvable("node(s) didn't match scheduler-enforced node affinity")
        if state.read(RequiredNodeAffinity).matches(node.labels, node.name):
            return None
        return SchedulingStatus.unresolvable("node(s) didn't match Pod's node affinity/selector")

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Skip pods without preferences."""
        spec = pod.pod.spec
        affinity = spec.affinity.node_affinity if spec and spec.affinity else None
        terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
        preferences = _Preferences([*compile_preferences(terms or ()), *self._added_preferences])
        if not preferences:
            return SKIP
        state.write(_Preferences, preferences)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Add the weights of the preferred terms that match."""
        return sum(weight for weight, test in state.read(_Preferences) if test(node.labels, node.name))

    def normalize_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> list[int]:
        """Scale to the largest sum of weights."""
        return normalize_by_maximum(scores)


def _required_names(pod: PodInfo) -> frozenset[str] | None:
    """Return the nodes that the terms name; `None` if a term does not name nodes."""
    spec = pod.pod.spec
    affinity = spec.affinity.node_affinity if spec and spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = required.node_selector_terms if required else None
    if not terms:
        return None
    names: frozenset[str] = frozenset()
    for term in terms:
        named: frozenset[str] | None = None
        for field in term.match_fields or ():
            if field.key == "metadata.name" and field.operator == "In":
                values = frozenset(field.values or ())
                named = values if named is None else named & values
        if named is None:
            return None
        names |= named
    return names
