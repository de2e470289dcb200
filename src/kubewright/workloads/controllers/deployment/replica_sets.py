"""The ReplicaSets of a Deployment: one per pod template, with revisions and annotations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from kubewright.api.apps.v1 import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.api.owners import owner_reference
from kubewright.api.values.int_or_string import scaled_value

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
NOT_COPIED: Final = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
    )
)
"""Annotations that are not copied from a Deployment to its ReplicaSets."""
MAX_HISTORY_LENGTH: Final = 2000
MAX_NAME_LENGTH: Final = 253
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


def spec_of(deployment: Deployment) -> DeploymentSpec:
    """Return the spec, which the server requires."""
    assert deployment.spec is not None
    return deployment.spec


def desired_replicas(deployment: Deployment) -> int:
    """Return `spec.replicas`."""
    replicas = spec_of(deployment).replicas
    return 1 if replicas is None else replicas


def replicas_of(replica_set: ReplicaSet) -> int:
    """Return `spec.replicas`."""
    replicas = replica_set.spec.replicas if replica_set.spec is not None else None
    return 1 if replicas is None else replicas


def status_of(replica_set: ReplicaSet) -> ReplicaSetStatus:
    """Return the status; empty if it is missing."""
    return replica_set.status or ReplicaSetStatus()


def available_of(replica_set: ReplicaSet) -> int:
    """Return `status.availableReplicas`."""
    return status_of(replica_set).available_replicas or 0


def total_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of `spec.replicas`."""
    return sum(replicas_of(each) for each in replica_sets)


def total_available(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of `status.availableReplicas`."""
    return sum(available_of(each) for each in replica_sets)


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return those with replicas."""
    return [each for each in replica_sets if replicas_of(each) > 0]


def by_age(replica_set: ReplicaSet) -> tuple[datetime, str]:
    """Sort key: the oldest first."""
    return replica_set.metadata.creation_timestamp or _OLDEST, replica_set.name


def is_rolling_update(deployment: Deployment) -> bool:
    """Whether the strategy is a rolling update."""
    strategy = spec_of(deployment).strategy
    return strategy is None or strategy.type in (None, "RollingUpdate")


def limits(deployment: Deployment) -> tuple[int, int]:
    """Return the surge and the number of unavailable replicas that the strategy allows."""
    if not is_rolling_update(deployment):
        return 0, 0
    desired = desired_replicas(deployment)
    strategy = spec_of(deployment).strategy
    rolling = strategy.rolling_update if strategy is not None else None
    surge_value: Any = rolling.max_surge if rolling is not None else None
    unavailable_value: Any = rolling.max_unavailable if rolling is not None else None
    surge = scaled_value(surge_value or 0, desired, round_up=True)
    unavailable = scaled_value(unavailable_value or 0, desired, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, desired)


def max_surge(deployment: Deployment) -> int:
    """Return the number of replicas above the desired number that the strategy allows."""
    return limits(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    """Return the number of unavailable replicas that the strategy allows."""
    return limits(deployment)[1]


def same_template(one: PodTemplateSpec | None, other: PodTemplateSpec | None) -> bool:
    """Whether two templates are equal apart from the label with the hash."""
    if one is None or other is None:
        return one is other
    return one.spec == other.spec and _comparable(one.metadata) == _comparable(other.metadata)


def _comparable(metadata: ObjectMeta | None) -> Any:
    if metadata is None:
        return (None, None, None, None)
    labels = {key: value for key, value in (metadata.labels or {}).items() if key != HASH_LABEL}
    return metadata.name or None, labels or None, metadata.annotations or None, metadata.finalizers or None


def find_new(deployment: Deployment, replica_sets: list[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest ReplicaSet with the current template."""
    template = spec_of(deployment).template
    for each in sorted(replica_sets, key=by_age):
        if each.spec is not None and same_template(each.spec.template, template):
            return each
    return None


def revision_of(obj: Deployment | ReplicaSet) -> int:
    """Return the revision in the annotation; 0 if it is missing or invalid."""
    try:
        return int((obj.metadata.annotations or {}).get(REVISION, "0"))
    except ValueError:
        return 0


def last_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the second largest revision; 0 if there are fewer than two."""
    revisions = sorted((revision_of(each) for each in replica_sets), reverse=True)
    return revisions[1] if len(revisions) > 1 else 0


def annotation_number(replica_set: ReplicaSet, key: str) -> int | None:
    """Return the non-negative number in an annotation."""
    text = (replica_set.metadata.annotations or {}).get(key, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def set_replicas_annotations(replica_set: ReplicaSet, deployment: Deployment) -> bool:
    """Record the size of the Deployment, by which a later scaling is recognized."""
    desired = desired_replicas(deployment)
    wanted = {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(desired + max_surge(deployment))}
    return _annotate(replica_set, wanted)


def set_new_annotations(
    replica_set: ReplicaSet, deployment: Deployment, revision: int, *, exists: bool
) -> bool:
    """Copy the annotations of the Deployment and set the revision; return whether anything changed."""
    source = deployment.metadata.annotations or {}
    changed = _annotate(replica_set, {key: source[key] for key in source if key not in NOT_COPIED})
    annotations = replica_set.metadata.annotations or {}
    old = annotations.get(REVISION, "")
    try:
        old_number = int(old or "0")
    except ValueError:
        return False
    if old_number < revision:
        changed = True
        wanted = {REVISION: str(revision)}
        if old:
            wanted[REVISION_HISTORY] = _history(annotations.get(REVISION_HISTORY, ""), old)
        _annotate(replica_set, wanted)
    if not exists and set_replicas_annotations(replica_set, deployment):
        changed = True
    return changed


def _history(history: str, revision: str) -> str:
    entries = [*(history.split(",") if history else ()), revision]
    while len(entries) > 1 and len(",".join(entries)) > MAX_HISTORY_LENGTH:
        del entries[0]
    return ",".join(entries)


def _annotate(obj: ReplicaSet, wanted: dict[str, str]) -> bool:
    current = obj.metadata.annotations or {}
    if all(current.get(key) == value for key, value in wanted.items()):
        return False
    obj.metadata.annotations = {**current, **wanted}
    return True


def new_replica_set(deployment: Deployment, template_hash: str) -> ReplicaSet:
    """Return the ReplicaSet of the current template, without replicas."""
    spec = spec_of(deployment)
    assert spec.template is not None
    template = spec.template.copy()
    metadata = template.metadata or ObjectMeta()
    metadata.labels = {**(metadata.labels or {}), HASH_LABEL: template_hash}
    template.metadata = metadata
    selector = spec.selector.copy() if spec.selector is not None else LabelSelector()
    selector.match_labels = {**(selector.match_labels or {}), HASH_LABEL: template_hash}
    prefix = deployment.name[: MAX_NAME_LENGTH - 1 - len(template_hash)]
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{prefix}-{template_hash}",
            namespace=deployment.namespace,
            owner_references=[owner_reference(deployment, controller=True, block_owner_deletion=True)],
            labels=dict(metadata.labels),
        ),
        spec=ReplicaSetSpec(
            replicas=0,
            min_ready_seconds=spec.min_ready_seconds,
            selector=selector,
            template=template,
        ),
    )
