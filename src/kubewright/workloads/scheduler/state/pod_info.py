"""`PodInfo`: what scheduling needs of a pod, computed once per version of the pod.

Pods with the same namespace and labels share one `LabelGroup`. A node counts its pods per group, so that
selectors of affinity terms and spread constraints are evaluated once per group and not once per pod.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubewright.api.core.v1 import Pod, PodAffinityTerm, PodSpec, PodStatus, WeightedPodAffinityTerm
from kubewright.api.meta import LabelSelector
from kubewright.api.selectors.label_selectors import NOTHING, Selector, SelectorError, selector_of

from .resources import CPU, DEFAULT_MEMORY, DEFAULT_MILLI_CPU, MEMORY, Resources, pod_amounts

_NO_SPEC = PodSpec()
_NO_STATUS = PodStatus()
_NO_LABELS: Mapping[str, str] = {}
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  the value that an empty hostIP stands for
HostPort = tuple[str, str, int]
"""IP address, protocol, port."""


class LabelGroup:
    """Pods with the same namespace and labels; terminating pods have their own group."""

    __slots__ = ("__weakref__", "labels", "namespace", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating


_groups: weakref.WeakValueDictionary[tuple[object, ...], LabelGroup] = weakref.WeakValueDictionary()


def label_group(namespace: str, labels: Mapping[str, str], terminating: bool) -> LabelGroup:
    """Return the group of pods with these labels; equal arguments return the same object."""
    key = (namespace, terminating, *sorted(labels.items()))
    group = _groups.get(key)
    if group is None:
        group = _groups[key] = LabelGroup(namespace, labels, terminating)
    return group


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AffinityTerm:
    """A pod affinity or anti-affinity term of a pod. Equal terms of different pods are one object."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str
    weight: int = 0

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] | None
    ) -> bool:
        """Whether a pod with this namespace and labels is selected."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)

    def with_namespaces(self, namespaces: frozenset[str]) -> AffinityTerm:
        """Return the term with more namespaces, those that the namespace selector selects."""
        return AffinityTerm(
            self.namespaces | namespaces, NOTHING, self.selector, self.topology_key, self.weight
        )


_interned: weakref.WeakValueDictionary[tuple[object, ...], AffinityTerm] = weakref.WeakValueDictionary()


def _term(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> AffinityTerm:
    namespaces = frozenset(term.namespaces or ())
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.metadata.namespace or "",))
    # matchLabelKeys and mismatchLabelKeys are merged into labelSelector by the API server.
    namespace_selector, selector = _selector(term.namespace_selector), _selector(term.label_selector)
    topology_key = term.topology_key or ""
    key = (namespaces, namespace_selector, selector, topology_key, weight)
    known = _interned.get(key)
    if known is None:
        known = _interned[key] = AffinityTerm(namespaces, namespace_selector, selector, topology_key, weight)
    return known


def _selector(structured: LabelSelector | None) -> Selector:
    try:
        return selector_of(structured)
    except SelectorError:
        return NOTHING


def _terms(pod: Pod, terms: Sequence[PodAffinityTerm] | None) -> tuple[AffinityTerm, ...]:
    return tuple(_term(pod, term) for term in terms or ())


def _weighted(pod: Pod, terms: Sequence[WeightedPodAffinityTerm] | None) -> tuple[AffinityTerm, ...]:
    return tuple(
        _term(pod, each.pod_affinity_term, each.weight or 0)
        for each in terms or ()
        if each.pod_affinity_term is not None
    )


def pod_uid(pod: Pod) -> str:
    """Return the uid of a pod, or its namespace and name if the pod has no uid, in a simulation."""
    meta = pod.metadata
    return meta.uid or f"{meta.namespace}/{meta.name}"


class PodInfo:
    """A pod with what scheduling needs of it."""

    __slots__ = (
        "_load",
        "_pod",
        "affinity_terms",
        "anti_affinity_terms",
        "claim_names",
        "generation",
        "group",
        "host_ports",
        "labels",
        "name",
        "namespace",
        "node_name",
        "nominated_node_name",
        "non_zero_cpu",
        "non_zero_memory",
        "preferred_affinity_terms",
        "preferred_anti_affinity_terms",
        "priority",
        "requests",
        "scheduler_name",
        "terminating",
        "uid",
    )

    def __init__(self, pod: Pod, *, node_name: str | None = None) -> None:
        """`node_name` is set for a pod that is assumed to be on a node before it is bound."""
        meta, spec = pod.metadata, pod.spec or _NO_SPEC
        self._pod: Pod | None = pod
        self._load: Callable[[], Pod] | None = None
        self.uid = pod_uid(pod)
        self.namespace = meta.namespace or ""
        self.name = meta.name or ""
        self.labels = meta.labels or _NO_LABELS
        self.generation = meta.generation or 0
        self.terminating = meta.deletion_timestamp is not None
        self.group = label_group(self.namespace, self.labels, self.terminating)
        self.node_name = node_name if node_name is not None else spec.node_name or ""
        self.nominated_node_name = (pod.status or _NO_STATUS).nominated_node_name or ""
        self.scheduler_name = spec.scheduler_name or "default-scheduler"
        self.priority = spec.priority or 0
        amounts = pod_amounts(pod)
        self.requests = Resources(amounts)
        self.non_zero_cpu, self.non_zero_memory = _non_zero(pod, amounts)
        self.host_ports = _host_ports(spec)
        self.claim_names = claim_names(pod) if spec.volumes else ()
        affinity = spec.affinity
        pod_affinity = affinity.pod_affinity if affinity else None
        anti_affinity = affinity.pod_anti_affinity if affinity else None
        self.affinity_terms: tuple[AffinityTerm, ...] = ()
        self.preferred_affinity_terms: tuple[AffinityTerm, ...] = ()
        self.anti_affinity_terms: tuple[AffinityTerm, ...] = ()
        self.preferred_anti_affinity_terms: tuple[AffinityTerm, ...] = ()
        if pod_affinity is not None:
            self.affinity_terms = _terms(
                pod, pod_affinity.required_during_scheduling_ignored_during_execution
            )
            self.preferred_affinity_terms = _weighted(
                pod, pod_affinity.preferred_during_scheduling_ignored_during_execution
            )
        if anti_affinity is not None:
            self.anti_affinity_terms = _terms(
                pod, anti_affinity.required_during_scheduling_ignored_during_execution
            )
            self.preferred_anti_affinity_terms = _weighted(
                pod, anti_affinity.preferred_during_scheduling_ignored_during_execution
            )

    @property
    def pod(self) -> Pod:
        """The pod. Pods that run on nodes are decoded when they are read."""
        if self._load is not None:
            return self._load()
        assert self._pod is not None
        return self._pod

    def load_with(self, load: Callable[[], Pod]) -> None:
        """Drop the decoded pod and decode it again with this function when it is read."""
        self._pod = None
        self._load = load

    @property
    def has_affinity(self) -> bool:
        """Whether the pod has any pod affinity or anti-affinity term."""
        return bool(
            self.affinity_terms
            or self.anti_affinity_terms
            or self.preferred_affinity_terms
            or self.preferred_anti_affinity_terms
        )

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r})"


def _non_zero(pod: Pod, amounts: Mapping[str, int]) -> tuple[int, int]:
    spec = pod.spec or _NO_SPEC
    if not spec.init_containers and len(spec.containers or ()) == 1 and not spec.overhead:
        return amounts.get(CPU, DEFAULT_MILLI_CPU), amounts.get(MEMORY, DEFAULT_MEMORY)
    padded = pod_amounts(pod, defaults={CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY})
    return padded.get(CPU, 0), padded.get(MEMORY, 0)


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return tuple(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port
    )


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the PersistentVolumeClaims of a pod, including those of ephemeral volumes."""
    names = []
    for volume in (pod.spec or _NO_SPEC).volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name or "")
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(names)
