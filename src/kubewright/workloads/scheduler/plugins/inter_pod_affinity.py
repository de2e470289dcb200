"""InterPodAffinity: affinity and anti-affinity between pods, in both directions.

A term selects pods by labels and namespaces, and applies to the topology domain (value of a node label) of
their nodes. The terms of the pod and the anti-affinity terms of existing pods are counted per domain once, in
PreFilter and PreScore; checking a node only looks up its domains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubewright.api.core.v1 import Namespace, Node, Pod
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from kubewright.workloads.scheduler.framework.status import SKIP, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.pod_info import AffinityTerm, LabelGroup, PodInfo

_Counts = dict[tuple[str, str], int]
"""Number of pods by topology key and value."""


class _FilterState:
    """Numbers of pods per topology domain that matter for a pod."""

    __slots__ = ("affinity", "affinity_terms", "anti_affinity", "anti_affinity_terms", "existing", "labels")

    def __init__(self, affinity_terms: Sequence[AffinityTerm], anti_terms: Sequence[AffinityTerm]) -> None:
        self.affinity_terms = affinity_terms
        self.anti_affinity_terms = anti_terms
        self.labels: Mapping[str, str] = {}
        """Labels of the namespace of the pod."""
        self.existing: _Counts = {}
        """Pods whose anti-affinity terms match the pod."""
        self.affinity: _Counts = {}
        """Pods that match all affinity terms of the pod."""
        self.anti_affinity: _Counts = {}
        """Pods that match an anti-affinity term of the pod."""

    def clone(self) -> _FilterState:
        new = _FilterState(self.affinity_terms, self.anti_affinity_terms)
        new.labels = self.labels
        new.existing, new.affinity = self.existing.copy(), self.affinity.copy()
        new.anti_affinity = self.anti_affinity.copy()
        return new

    def update(self, pod: PodInfo, other: PodInfo, node: NodeInfo, number: int) -> None:
        """Count another pod on a node."""
        for term in other.anti_affinity_terms:
            if term.matches(pod.namespace, pod.labels, self.labels):
                _count(self.existing, node, term.topology_key, number)
        if self.affinity_terms and all(
            term.matches(other.namespace, other.labels, None) for term in self.affinity_terms
        ):
            for term in self.affinity_terms:
                _count(self.affinity, node, term.topology_key, number)
        for term in self.anti_affinity_terms:
            if term.matches(other.namespace, other.labels, None):
                _count(self.anti_affinity, node, term.topology_key, number)


class _Scores(dict[tuple[str, str], int]):
    """Sums of weights by topology key and value."""


class InterPodAffinity(Plugin):
    """Required terms exclude nodes, preferred terms change their score.

    Arguments: `hard_pod_affinity_weight`, the weight of required affinity terms of existing pods in the score
    (default 1); `ignore_preferred_terms_of_existing_pods`.
    """

    kinds = (Namespace,)

    def __init__(
        self,
        handle: Handle,
        hard_pod_affinity_weight: int = 1,
        ignore_preferred_terms_of_existing_pods: bool = False,
    ) -> None:
        super().__init__(handle)
        self._hard_weight = hard_pod_affinity_weight
        self._ignore_existing = ignore_preferred_terms_of_existing_pods

    def events(self) -> Iterable[ClusterEvent]:
        """Pods are added, deleted or relabeled, or nodes are added or relabeled."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        return (
            ClusterEvent("Pod", pods, self._after_pod_change),
            ClusterEvent("Node", nodes, self._after_node_change),
        )

    def _after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        changed = new or old
        if changed is None or changed.metadata.uid == pod.uid:
            return Hint.QUEUE
        if new is not None and _matches_any(self._merge(pod.affinity_terms), new):
            return Hint.QUEUE
        if old is not None:
            anti_affinity = self._merge(pod.anti_affinity_terms)
            if _matches_any(anti_affinity, old) and (new is None or not _matches_any(anti_affinity, new)):
                return Hint.QUEUE
            if new is None:
                labels = self._namespace_labels(pod.namespace)
                terms = PodInfo(old).anti_affinity_terms
                if any(term.matches(pod.namespace, pod.labels, labels) for term in terms):
                    return Hint.QUEUE
        return Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        if new is None:
            return Hint.SKIP
        after, before = new.metadata.labels or {}, (old.metadata.labels if old else None) or {}
        keys = {term.topology_key for term in (*pod.affinity_terms, *pod.anti_affinity_terms)}
        if not keys:
            # Rejected because of the anti-affinity of other pods, whose topology keys are not known here.
            return Hint.QUEUE
        if old is None:
            return Hint.QUEUE if any(key in after for key in keys) or not pod.affinity_terms else Hint.SKIP
        return Hint.QUEUE if any(after.get(key) != before.get(key) for key in keys) else Hint.SKIP

    # Filter

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Count the pods that matter; skip if no pods matter and the pod has no required terms."""
        snapshot = self.handle.snapshot
        has_terms = bool(pod.affinity_terms or pod.anti_affinity_terms)
        if not has_terms and not snapshot.anti_affinity_nodes:
            return SKIP
        found = _FilterState(self._merge(pod.affinity_terms), self._merge(pod.anti_affinity_terms))
        found.labels = self._namespace_labels(pod.namespace)
        matches: dict[AffinityTerm, bool] = {}
        for node in snapshot.anti_affinity_nodes.values():
            for term, number in node.anti_affinity_terms.items():
                if term not in matches:
                    matches[term] = term.matches(pod.namespace, pod.labels, found.labels)
                if matches[term]:
                    _count(found.existing, node, term.topology_key, number)
        if not has_terms and not found.existing:
            return SKIP
        if has_terms:
            self._count_matching(found, nodes)
        state.write(_FilterState, found)
        return None

    def _count_matching(self, found: _FilterState, nodes: Sequence[NodeInfo]) -> None:
        """Count the existing pods that match the terms of the pod."""
        terms, anti_terms = found.affinity_terms, found.anti_affinity_terms
        wanted: dict[LabelGroup, tuple[bool, list[AffinityTerm]]] = {}
        for groups in self.handle.snapshot.groups.values():
            for group in groups:
                labels, namespace = group.labels, group.namespace
                affine = bool(terms) and all(term.matches(namespace, labels, None) for term in terms)
                anti = [term for term in anti_terms if term.matches(namespace, labels, None)]
                if affine or anti:
                    wanted[group] = (affine, anti)
        if not wanted:
            return
        for node in nodes:
            for group, number in node.group_counts.items():
                match = wanted.get(group)
                if match is None:
                    continue
                if match[0]:
                    for term in terms:
                        _count(found.affinity, node, term.topology_key, number)
                for term in match[1]:
                    _count(found.anti_affinity, node, term.topology_key, number)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count an added pod."""
        state.read(_FilterState).update(pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Do not count a removed pod."""
        state.read(_FilterState).update(pod, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Check the affinity, the anti-affinity, and the anti-affinity of existing pods."""
        found = state.read(_FilterState)
        if found.affinity_terms and not self._satisfies_affinity(found, pod, node):
            return SchedulingStatus.unresolvable("node(s) didn't match pod affinity rules")
        labels = node.labels
        if found.anti_affinity:
            for term in found.anti_affinity_terms:
                domain = labels.get(term.topology_key)
                if domain is not None and found.anti_affinity.get((term.topology_key, domain), 0) > 0:
                    return SchedulingStatus.unschedulable("node(s) didn't match pod anti-affinity rules")
        existing = found.existing
        if existing and any(existing.get(label, 0) > 0 for label in labels.items()):
            return SchedulingStatus.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    def _satisfies_affinity(self, found: _FilterState, pod: PodInfo, node: NodeInfo) -> bool:
        exists = True
        for term in found.affinity_terms:
            domain = node.labels.get(term.topology_key)
            if domain is None:
                return False
            if found.affinity.get((term.topology_key, domain), 0) <= 0:
                exists = False
        if exists:
            return True
        # The first pod of a group with affinity to itself is allowed on any node with the topology keys.
        return not found.affinity and all(
            term.matches(pod.namespace, pod.labels, None) for term in found.affinity_terms
        )

    # Score

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Add up the weights per topology domain; skip if no term matches."""
        snapshot = self.handle.snapshot
        preferred = self._merge(pod.preferred_affinity_terms)
        anti_preferred = self._merge(pod.preferred_anti_affinity_terms)
        has_terms = bool(preferred or anti_preferred)
        if not has_terms and (self._ignore_existing or not snapshot.affinity_nodes):
            return SKIP
        scores = _Scores()
        labels = self._namespace_labels(pod.namespace)
        matches: dict[AffinityTerm, bool] = {}
        for node in snapshot.affinity_nodes.values():
            for (kind, term), number in node.affinity_terms.items():
                weight = self._hard_weight if kind == "required" else term.weight
                if not weight:
                    continue
                if term not in matches:
                    matches[term] = term.matches(pod.namespace, pod.labels, labels)
                if matches[term]:
                    sign = -1 if kind == "preferred-anti" else 1
                    _count(scores, node, term.topology_key, sign * weight * number, keep_zero=True)
        if has_terms:
            weighted = [(term, term.weight) for term in preferred]
            weighted += [(term, -term.weight) for term in anti_preferred]
            self._add_own_terms(scores, weighted)
        if not scores:
            return SKIP
        state.write(_Scores, scores)
        return None

    def _add_own_terms(self, scores: _Scores, weighted: Sequence[tuple[AffinityTerm, int]]) -> None:
        wanted: dict[LabelGroup, list[tuple[AffinityTerm, int]]] = {}
        for groups in self.handle.snapshot.groups.values():
            for group in groups:
                matching = [
                    (term, weight)
                    for term, weight in weighted
                    if term.matches(group.namespace, group.labels, None)
                ]
                if matching:
                    wanted[group] = matching
        for node in self.handle.snapshot.nodes if wanted else ():
            for group, number in node.group_counts.items():
                for term, weight in wanted.get(group, ()):
                    _count(scores, node, term.topology_key, weight * number, keep_zero=True)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Add up the weights of the domains of the node."""
        scores = state.read(_Scores)
        return sum([scores.get(label, 0) for label in node.labels.items()])

    def normalize_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> list[int]:
        """Scale so that the smallest sum becomes 0 and the largest 100."""
        smallest, largest = min(scores), max(scores)
        if smallest == largest:
            return [0] * len(scores)
        return [int(MAX_NODE_SCORE * ((score - smallest) / (largest - smallest))) for score in scores]

    # Namespaces

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self.handle.lister.get(Namespace, name)
        return (namespace.metadata.labels if namespace else None) or {}

    def _merge(self, terms: Sequence[AffinityTerm]) -> Sequence[AffinityTerm]:
        """Replace namespace selectors by the namespaces that they select now."""
        if all(term.namespace_selector.empty or not _selects(term) for term in terms):
            return terms
        namespaces = list(self.handle.lister.list(Namespace))
        merged = []
        for term in terms:
            if _selects(term) and not term.namespace_selector.empty:
                term = term.with_namespaces(
                    frozenset(
                        each.metadata.name or ""
                        for each in namespaces
                        if term.namespace_selector.matches(each.metadata.labels)
                    )
                )
            merged.append(term)
        return merged


def _selects(term: AffinityTerm) -> bool:
    return bool(term.namespace_selector.requirements)


def _matches_any(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    meta = pod.metadata
    return any(term.matches(meta.namespace or "", meta.labels or {}, None) for term in terms)


def _count(
    counts: dict[tuple[str, str], int], node: NodeInfo, key: str, number: int, *, keep_zero: bool = False
) -> None:
    domain = node.labels.get(key)
    if domain is None:
        return
    pair = (key, domain)
    total = counts.get(pair, 0) + number
    if total or keep_zero:
        counts[pair] = total
    else:
        counts.pop(pair, None)
