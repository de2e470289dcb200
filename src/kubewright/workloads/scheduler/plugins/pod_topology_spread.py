"""PodTopologySpread: spreads pods over zones, nodes or other topology domains.

A constraint counts the pods that its selector matches, per value of a node label (a domain). Filter rejects
nodes whose domain would exceed the smallest count by more than `maxSkew`; Score prefers domains with fewer
matching pods. PreFilter counts once for all nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kubewright.api.apps.v1 import ReplicaSet, StatefulSet
from kubewright.api.core.v1 import (
    Node,
    Pod,
    ReplicationController,
    Service,
    Toleration,
    TopologySpreadConstraint,
)
from kubewright.api.selectors.label_selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    selector_from_labels,
    selector_of,
)
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from kubewright.workloads.scheduler.framework.status import SKIP, SchedulingStatus
from kubewright.workloads.scheduler.state.cache import count_pods
from kubewright.workloads.scheduler.state.node_info import ZONE_LABEL, NodeInfo
from kubewright.workloads.scheduler.state.node_selectors import RequiredNodeAffinity, tolerates_all
from kubewright.workloads.scheduler.state.pod_info import LabelGroup, PodInfo

HOSTNAME_LABEL = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME_LABEL, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE_LABEL, when_unsatisfiable="ScheduleAnyway", max_skew=5),
)
NOT_MATCH = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class _Constraint:
    key: str
    max_skew: int
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def includes(
        self, node: NodeInfo, affinity: RequiredNodeAffinity, tolerations: Sequence[Toleration]
    ) -> bool:
        """Whether pods on the node are counted."""
        if self.honors_affinity and not affinity.matches(node.labels, node.name):
            return False
        return not (self.honors_taints and node.taints) or tolerates_all(tolerations, node.taints)


class _FilterState:
    """Matching pods per constraint and topology domain."""

    __slots__ = ("_minimums", "affinity", "constraints", "counts", "self_matches", "tolerations")

    def __init__(self, pod: PodInfo, constraints: list[_Constraint]) -> None:
        self.constraints = constraints
        self.affinity = RequiredNodeAffinity(pod.pod)
        self.tolerations = _tolerations(pod)
        self.self_matches = [each.selector.matches(pod.labels) for each in constraints]
        self.counts: list[dict[str, int]] = [{} for _ in constraints]
        self._minimums: list[int | None] = [None] * len(constraints)

    def add(self, index: int, domain: str, number: int) -> None:
        counts = self.counts[index]
        counts[domain] = counts.get(domain, 0) + number
        self._minimums[index] = None

    def minimum(self, index: int) -> int:
        """The number of matching pods in the domain that has the fewest."""
        known = self._minimums[index]
        if known is None:
            counts = self.counts[index]
            too_few = len(counts) < self.constraints[index].min_domains
            known = self._minimums[index] = 0 if too_few else min(counts.values())
        return known

    def clone(self) -> _FilterState:
        new = _FilterState.__new__(_FilterState)
        new.constraints, new.affinity, new.tolerations = self.constraints, self.affinity, self.tolerations
        new.self_matches = self.self_matches
        new.counts = [counts.copy() for counts in self.counts]
        new._minimums = self._minimums.copy()
        return new


@dataclass(slots=True)
class _ScoreState:
    constraints: list[_Constraint]
    groups: list[frozenset[LabelGroup]]
    counts: list[dict[str, int]]
    weights: list[float]
    ignored: set[str]


class PodTopologySpread(Plugin):
    """Spread constraints of the pod; without any, default constraints for pods of a Service or controller.

    Arguments: `default_constraints`, a list of TopologySpreadConstraint without label selector, which
    replaces the system defaults (hostname with maxSkew 3, zone with maxSkew 5, both ScheduleAnyway).
    """

    kinds = (Service, ReplicaSet, ReplicationController, StatefulSet)

    def __init__(
        self, handle: Handle, default_constraints: Sequence[TopologySpreadConstraint] | None = None
    ) -> None:
        super().__init__(handle)
        self._has_system_defaults = default_constraints is None
        self._defaults = SYSTEM_DEFAULTS if default_constraints is None else tuple(default_constraints)

    def events(self) -> Iterable[ClusterEvent]:
        """Pods are added, deleted or relabeled, or nodes appear, disappear or change their labels."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            ClusterEvent("Pod", pods, self._after_pod_change),
            ClusterEvent("Node", nodes, self._after_node_change),
        )

    def _after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        changed = new or old
        if changed is None or changed.metadata.uid == pod.uid:
            return Hint.QUEUE
        if changed.metadata.namespace != pod.namespace:
            return Hint.SKIP
        for constraint in self._constraints(pod, "DoNotSchedule"):
            matched = old is not None and constraint.selector.matches(old.metadata.labels)
            matches = new is not None and constraint.selector.matches(new.metadata.labels)
            if matched != matches:
                return Hint.QUEUE
        return Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        keys = [constraint.key for constraint in self._constraints(pod, "DoNotSchedule")]
        before = _domains(old, keys)
        after = _domains(new, keys)
        if before is None and after is None:
            return Hint.SKIP
        if old is not None and new is not None and before == after:
            old_taints, new_taints = old.spec and old.spec.taints, new.spec and new.spec.taints
            return Hint.SKIP if old_taints == new_taints else Hint.QUEUE
        return Hint.QUEUE

    # Filter

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Count matching pods per domain; skip pods without constraints."""
        constraints = self._constraints(pod, "DoNotSchedule")
        if not constraints:
            return SKIP
        found = _FilterState(pod, constraints)
        groups = [self._groups(pod, constraint.selector) for constraint in constraints]
        keys = [constraint.key for constraint in constraints]
        for node in nodes:
            labels = node.labels
            if any(key not in labels for key in keys):
                continue
            for index, constraint in enumerate(constraints):
                if constraint.includes(node, found.affinity, found.tolerations):
                    found.add(index, labels[constraint.key], count_pods(node, groups[index]))
        state.write(_FilterState, found)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count an added pod."""
        self._update(state.read(_FilterState), pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Do not count a removed pod."""
        self._update(state.read(_FilterState), pod, removed, node, -1)

    def _update(
        self, found: _FilterState, pod: PodInfo, changed: PodInfo, node: NodeInfo, number: int
    ) -> None:
        if changed.namespace != pod.namespace:
            return
        if any(constraint.key not in node.labels for constraint in found.constraints):
            return
        for index, constraint in enumerate(found.constraints):
            if constraint.selector.matches(changed.labels) and constraint.includes(
                node, found.affinity, found.tolerations
            ):
                found.add(index, node.labels[constraint.key], number)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Reject nodes in domains that already have too many matching pods."""
        found = state.read(_FilterState)
        for index, constraint in enumerate(found.constraints):
            domain = node.labels.get(constraint.key)
            if domain is None:
                return SchedulingStatus.unresolvable(f"{NOT_MATCH} (missing required label)")
            number = found.counts[index].get(domain, 0) + found.self_matches[index]
            if number - found.minimum(index) > constraint.max_skew:
                return SchedulingStatus.unschedulable(NOT_MATCH)
        return None

    # Score

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Count matching pods per domain of the nodes that fit."""
        constraints = self._constraints(pod, "ScheduleAnyway")
        if not constraints:
            return SKIP
        spec = pod.pod.spec
        own = bool(spec and spec.topology_spread_constraints)
        requires_all = own or not self._has_system_defaults
        ignored: set[str] = set()
        counts: list[dict[str, int]] = [{} for _ in constraints]
        for node in nodes:
            if requires_all and any(constraint.key not in node.labels for constraint in constraints):
                ignored.add(node.name)
                continue
            for index, constraint in enumerate(constraints):
                if constraint.key != HOSTNAME_LABEL:
                    counts[index].setdefault(node.labels.get(constraint.key, ""), 0)
        groups = [self._groups(pod, constraint.selector) for constraint in constraints]
        affinity, tolerations = RequiredNodeAffinity(pod.pod), _tolerations(pod)
        domains = [
            (index, constraint)
            for index, constraint in enumerate(constraints)
            if constraint.key != HOSTNAME_LABEL and groups[index]
        ]
        keys = [constraint.key for constraint in constraints] if requires_all else []
        for node in self.handle.snapshot.nodes if domains else ():
            labels = node.labels
            if keys and any(key not in labels for key in keys):
                continue
            for index, constraint in domains:
                domain = labels.get(constraint.key, "")
                if domain not in counts[index]:
                    continue
                number = count_pods(node, groups[index])
                if number and constraint.includes(node, affinity, tolerations):
                    counts[index][domain] += number
        weights = [
            math.log(
                (len(nodes) - len(ignored) if constraint.key == HOSTNAME_LABEL else len(counts[index])) + 2
            )
            for index, constraint in enumerate(constraints)
        ]
        state.write(_ScoreState, _ScoreState(constraints, groups, counts, weights, ignored))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Add up the matching pods in the domains of the node."""
        found = state.read(_ScoreState)
        if node.name in found.ignored:
            return 0
        total = 0.0
        for index, constraint in enumerate(found.constraints):
            domain = node.labels.get(constraint.key)
            if domain is None:
                continue
            if constraint.key == HOSTNAME_LABEL:
                number = count_pods(node, found.groups[index])
            else:
                number = found.counts[index][domain]
            total += number * found.weights[index] + (constraint.max_skew - 1)
        return math.floor(total + 0.5)

    def normalize_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> list[int]:
        """Fewer matching pods give a higher score."""
        ignored = state.read(_ScoreState).ignored
        counted = [score for node, score in zip(nodes, scores, strict=True) if node.name not in ignored]
        largest, smallest = max(counted, default=0), min(counted, default=0)
        return [
            0
            if node.name in ignored
            else MAX_NODE_SCORE
            if largest == 0
            else MAX_NODE_SCORE * (largest + smallest - score) // largest
            for node, score in zip(nodes, scores, strict=True)
        ]

    # Constraints

    def _groups(self, pod: PodInfo, selector: Selector) -> frozenset[LabelGroup]:
        if selector.empty:
            return frozenset()
        return self.handle.snapshot.select_groups(pod.namespace, selector)

    def _constraints(
        self, pod: PodInfo, action: Literal["DoNotSchedule", "ScheduleAnyway"]
    ) -> list[_Constraint]:
        spec = pod.pod.spec
        own = spec.topology_spread_constraints if spec else None
        if own:
            return [
                _compile(each, _selector(each, pod.labels))
                for each in own
                if each.when_unsatisfiable == action
            ]
        defaults = [each for each in self._defaults if each.when_unsatisfiable == action]
        if not defaults:
            return []
        selector = self._default_selector(pod)
        return [] if selector.empty else [_compile(each, selector) for each in defaults]

    def _default_selector(self, pod: PodInfo) -> Selector:
        """Return the combined selectors of the Services and the controller of a pod."""
        lister = self.handle.lister
        labels: dict[str, str] = {}
        for service in lister.list(Service, namespace=pod.namespace):
            wanted = service.spec.selector if service.spec else None
            if wanted and wanted.items() <= pod.labels.items():
                labels.update(wanted)
        owners = pod.pod.metadata.owner_references or ()
        owner = next((each for each in owners if each.controller), None)
        if owner is None:
            return selector_from_labels(labels) if labels else EVERYTHING
        key = (owner.api_version, owner.kind)
        if key == ("v1", "ReplicationController"):
            controller = lister.get(ReplicationController, owner.name or "", namespace=pod.namespace)
            labels.update(((controller.spec and controller.spec.selector) or {}) if controller else {})
        selector = selector_from_labels(labels)
        kind: type[Any] | None = {
            ("apps/v1", "ReplicaSet"): ReplicaSet,
            ("apps/v1", "StatefulSet"): StatefulSet,
        }.get(key)
        if kind is not None:
            owning = lister.get(kind, owner.name or "", namespace=pod.namespace)
            if owning is not None and owning.spec is not None:
                try:
                    selector = selector.add(*selector_of(owning.spec.selector).requirements)
                except SelectorError:
                    return selector
        return selector


def _compile(constraint: TopologySpreadConstraint, selector: Selector) -> _Constraint:
    return _Constraint(
        constraint.topology_key or "",
        constraint.max_skew or 1,
        selector,
        constraint.min_domains or 1,
        (constraint.node_affinity_policy or "Honor") == "Honor",
        (constraint.node_taints_policy or "Ignore") == "Honor",
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    try:
        selector = selector_of(constraint.label_selector)
    except SelectorError:
        return NOTHING
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    return selector & selector_from_labels({key: labels[key] for key in keys}) if keys else selector


def _domains(node: Node | None, keys: Sequence[str]) -> list[str] | None:
    """Return the domains of a node; `None` if it does not exist or a label is missing."""
    labels = (node.metadata.labels if node else None) or {}
    if node is None or any(key not in labels for key in keys):
        return None
    return [labels[key] for key in keys]


def _tolerations(pod: PodInfo) -> Sequence[Toleration]:
    spec = pod.pod.spec
    return (spec.tolerations if spec else None) or ()
