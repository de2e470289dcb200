"""The nodes on which the pods of a DaemonSet run, and the pods for them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubewright.api.apps.v1 import DaemonSet, DaemonSetSpec
from kubewright.api.core.v1 import Node, Pod, PodSpec, PodTemplateSpec, Toleration
from kubewright.api.meta import ObjectMeta
from kubewright.api.values.int_or_string import scaled_value
from kubewright.workloads.pod_control import pod_from_template
from kubewright.workloads.pods import PodSummary
from kubewright.workloads.revisions import POD_REVISION_LABEL
from kubewright.workloads.scheduler.state.node_selectors import RequiredNodeAffinity, find_untolerated

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
TEMPLATE_GENERATION_LABEL: Final = "pod-template-generation"
_TAINTS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Taints that all pods of DaemonSets tolerate."""
_HOST_NETWORK_TAINT: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def spec_of(daemon_set: DaemonSet) -> DaemonSetSpec:
    """Return the spec, which the server requires."""
    assert daemon_set.spec is not None
    return daemon_set.spec


def template_of(daemon_set: DaemonSet) -> PodTemplateSpec:
    """Return the pod template, which the server requires."""
    template = spec_of(daemon_set).template
    assert template is not None
    return template


class Fit(NamedTuple):
    """Whether a pod should run on a node."""

    should_run: bool
    may_continue: bool
    """Whether a pod that runs already is kept: taints without execution do not apply to it."""


class Placement:
    """Decides on which nodes the pods of a DaemonSet run."""

    def __init__(self, daemon_set: DaemonSet) -> None:
        self._spec = template_of(daemon_set).spec or PodSpec()
        self._affinity = RequiredNodeAffinity(Pod(spec=self._spec))
        self._tolerations = daemon_tolerations(self._spec)

    def fit(self, node: Node) -> Fit:
        """Return whether a pod should run on a node."""
        if self._spec.node_name and self._spec.node_name != node.name:
            return Fit(False, False)
        if not self._affinity.matches_node(node):
            return Fit(False, False)
        taints = (node.spec.taints if node.spec is not None else None) or []
        executing = [each for each in taints if each.effect == "NoExecute"]
        if find_untolerated(self._tolerations, executing) is not None:
            return Fit(False, False)
        others = [each for each in taints if each.effect == "NoSchedule"]
        return Fit(find_untolerated(self._tolerations, others) is None, True)


def daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    """Return the tolerations of a pod spec with those that all pods of DaemonSets have."""
    tolerations = list(spec.tolerations or ())
    taints = (*_TAINTS, _HOST_NETWORK_TAINT) if spec.host_network else _TAINTS
    for key, effect in taints:
        wanted = Toleration(key=key, operator="Exists", effect=effect)
        tolerations = [each for each in tolerations if not _is_same(each, wanted)]
        tolerations.append(wanted)
    return tolerations


def _is_same(one: Toleration, other: Toleration) -> bool:
    return (one.key, one.operator, one.effect, one.value or None) == (
        other.key,
        other.operator,
        other.effect,
        other.value,
    )


def template_generation(daemon_set: DaemonSet) -> str:
    """Return the generation of the template from the annotation of the former API."""
    return (daemon_set.metadata.annotations or {}).get(TEMPLATE_GENERATION, "")


def is_updated(pod: PodSummary, daemon_set: DaemonSet, digest: str) -> bool:
    """Whether a pod has the current template."""
    generation = template_generation(daemon_set)
    return pod.labels.get(POD_REVISION_LABEL) == digest or (
        bool(generation) and pod.labels.get(TEMPLATE_GENERATION_LABEL) == generation
    )


def limits(daemon_set: DaemonSet, desired: int) -> tuple[int, int]:
    """Return the surge and the number of unavailable pods that a rolling update allows."""
    strategy = spec_of(daemon_set).update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    surge = (rolling.max_surge if rolling is not None else None) or 0
    unavailable = rolling.max_unavailable if rolling is not None else None
    max_surge = scaled_value(surge, desired, round_up=True)
    max_unavailable = scaled_value(1 if unavailable is None else unavailable, desired, round_up=True)
    return max_surge, max_unavailable if max_surge or max_unavailable or not desired else 1


def is_rolling_update(daemon_set: DaemonSet) -> bool:
    """Whether the strategy is a rolling update."""
    strategy = spec_of(daemon_set).update_strategy
    return strategy is None or strategy.type in (None, "RollingUpdate")


def new_pods(daemon_set: DaemonSet, digest: str, nodes: list[str]) -> list[dict[str, Any]]:
    """Return the pods for nodes, as dicts; the node affinity makes the scheduler bind them to their node."""
    template = template_of(daemon_set).copy()
    metadata = template.metadata or ObjectMeta()
    metadata.labels = {**(metadata.labels or {}), POD_REVISION_LABEL: digest}
    generation = template_generation(daemon_set)
    if generation:
        metadata.labels[TEMPLATE_GENERATION_LABEL] = generation
    template.metadata = metadata
    template.spec = template.spec or PodSpec()
    template.spec.tolerations = daemon_tolerations(template.spec)
    base = pod_from_template(template, daemon_set)
    return [{**base, "spec": _bound_to(base["spec"], node)} for node in nodes]


def _bound_to(spec: dict[str, Any], node: str) -> dict[str, Any]:
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}
