"""Ordinals, names and pods of a StatefulSet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kubewright.api.apps.v1 import StatefulSet, StatefulSetSpec
from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.api.values.int_or_string import scaled_value
from kubewright.workloads.pod_control import pod_from_template
from kubewright.workloads.pods import PodSummary
from kubewright.workloads.revisions import POD_REVISION_LABEL

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(.*)-([0-9]+)", re.DOTALL).fullmatch


@dataclass(slots=True, eq=False)
class Replica:
    """A pod of a StatefulSet, or the place of a pod that does not exist yet."""

    ordinal: int
    pod: PodSummary | None = None

    @property
    def revision(self) -> str:
        """The revision that the pod was created from."""
        return self.pod.labels.get(POD_REVISION_LABEL, "") if self.pod is not None else ""

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.pod is not None and self.pod.is_terminating

    @property
    def is_ready(self) -> bool:
        """Whether the pod runs and is ready."""
        return self.pod is not None and self.pod.status.phase == "Running" and self.pod.is_ready

    def is_available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Whether the pod has been ready for at least `min_ready_seconds`."""
        return self.pod is not None and self.pod.is_available(min_ready_seconds, now)

    def is_unavailable(self, min_ready_seconds: int, now: datetime) -> bool:
        """Whether the pod does not count as available, also because it is being deleted."""
        return not self.is_available(min_ready_seconds, now) or self.is_terminating


def spec_of(stateful_set: StatefulSet) -> StatefulSetSpec:
    """Return the spec, which the server requires."""
    assert stateful_set.spec is not None
    return stateful_set.spec


def replica_count(stateful_set: StatefulSet) -> int:
    """Return `spec.replicas`."""
    replicas = spec_of(stateful_set).replicas
    return 1 if replicas is None else replicas


def start_ordinal(stateful_set: StatefulSet) -> int:
    """Return the first ordinal."""
    ordinals = spec_of(stateful_set).ordinals
    return (ordinals.start if ordinals is not None else None) or 0


def ordinal_range(stateful_set: StatefulSet) -> range:
    """Return the ordinals of the desired replicas."""
    start = start_ordinal(stateful_set)
    return range(start, start + replica_count(stateful_set))


def ordinal_of(name: str, stateful_set: StatefulSet) -> int | None:
    """Return the ordinal in the name of a pod; `None` if the pod is not of the StatefulSet."""
    match = _NAME(name)
    return int(match[2]) if match is not None and match[1] == stateful_set.name else None


def is_parallel(stateful_set: StatefulSet) -> bool:
    """Whether pods are created and deleted at the same time, not one after the other."""
    return spec_of(stateful_set).pod_management_policy == "Parallel"


def partition_of(stateful_set: StatefulSet) -> int:
    """Return the number of replicas that a rolling update leaves at the current revision."""
    strategy = spec_of(stateful_set).update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    return (rolling.partition if rolling is not None else None) or 0


def has_max_unavailable(stateful_set: StatefulSet) -> bool:
    """Whether `maxUnavailable` is set; servers drop it unless MaxUnavailableStatefulSet is enabled."""
    strategy = spec_of(stateful_set).update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    return rolling is not None and rolling.max_unavailable is not None


def max_unavailable(stateful_set: StatefulSet) -> int:
    """Return the number of pods that a rolling update may make unavailable."""
    strategy = spec_of(stateful_set).update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    value = rolling.max_unavailable if rolling is not None else None
    return max(1, scaled_value(1 if value is None else value, replica_count(stateful_set), round_up=False))


def identity_labels(stateful_set: StatefulSet, ordinal: int) -> dict[str, str]:
    """Return the labels of the pod with an ordinal."""
    return {POD_NAME_LABEL: f"{stateful_set.name}-{ordinal}", POD_INDEX_LABEL: str(ordinal)}


def claim_name(template: str, stateful_set: StatefulSet, ordinal: int) -> str:
    """Return the name of the claim of a pod for a claim template."""
    return f"{template}-{stateful_set.name}-{ordinal}"


def new_pod(
    stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int
) -> dict[str, Any]:
    """Return the pod with an ordinal, as a dict."""
    spec = spec_of(stateful_set)
    pod = pod_from_template(template, stateful_set)
    name = f"{stateful_set.name}-{ordinal}"
    metadata = pod["metadata"]
    metadata["name"] = name
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        **identity_labels(stateful_set, ordinal),
        POD_REVISION_LABEL: revision,
    }
    claims = [each.metadata.name or "" for each in spec.volume_claim_templates or ()]
    volumes = [
        {
            "name": each,
            "persistentVolumeClaim": {"claimName": claim_name(each, stateful_set, ordinal)},
        }
        for each in claims
    ]
    others = [each for each in pod["spec"].get("volumes") or () if each["name"] not in claims]
    pod["spec"] = {**pod["spec"], "hostname": name}
    if spec.service_name:
        pod["spec"]["subdomain"] = spec.service_name
    if volumes or others:
        pod["spec"]["volumes"] = [*volumes, *others]
    return pod
