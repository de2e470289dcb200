"""States of the pods of a Job: failed, finished, tracked; completion index and failure counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from kubewright.api.batch.v1 import Job
from kubewright.api.conditions import get_condition, is_condition_true
from kubewright.api.core.v1 import ContainerStatus, Pod
from kubewright.api.finalizers import has_finalizer
from kubewright.api.values.times import now

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_NAME = "batch.kubernetes.io/job-name"
_TERMINAL = ("Succeeded", "Failed")
_MAX_COUNT = 2**31 - 1


def phase_of(pod: Pod) -> str:
    """Return the phase of a pod."""
    return (pod.status.phase if pod.status is not None else None) or "Pending"


def is_active(pod: Pod) -> bool:
    """Whether a pod has not finished and is not being deleted."""
    return phase_of(pod) not in _TERMINAL and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """Whether a pod is being deleted and has not finished."""
    return phase_of(pod) not in _TERMINAL and pod.metadata.deletion_timestamp is not None


def is_ready(pod: Pod) -> bool:
    """Whether the condition Ready of a pod is true."""
    return is_condition_true(pod.status, "Ready")


def is_tracked(pod: Pod) -> bool:
    """Whether a pod has the finalizer, that is, has not been counted yet."""
    return has_finalizer(pod, TRACKING_FINALIZER)


def replaces_only_failed_pods(job: Job) -> bool:
    """Whether a pod is replaced only when it has failed, and not when it is terminating."""
    assert job.spec is not None
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod counts as failed; a terminating pod may never reach the phase Failed."""
    if phase_of(pod) == "Failed":
        return True
    if replaces_only_failed_pods(job):
        return False
    return pod.metadata.deletion_timestamp is not None and phase_of(pod) != "Succeeded"


def completion_index(pod: Pod) -> int | None:
    """Return the completion index of a pod; `None` if it has none."""
    text = (pod.metadata.annotations or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else None


def index_failure_count(pod: Pod) -> int:
    """Return the number of failures of the index before this pod that count."""
    return _count(pod, INDEX_FAILURE_COUNT)


def ignored_failure_count(pod: Pod) -> int:
    """Return the number of failures of the index before this pod that a failure policy ignored."""
    return _count(pod, INDEX_IGNORED_FAILURE_COUNT)


def _count(pod: Pod, annotation: str) -> int:
    text = (pod.metadata.annotations or {}).get(annotation, "")
    return int(text) if text.isdecimal() and int(text) <= _MAX_COUNT else 0


def finished_at(pod: Pod) -> datetime:
    """Return when a pod finished: from its containers, its readiness, its deletion or its creation."""
    from_containers = _containers_finished_at(pod)
    if from_containers is not None:
        return from_containers
    ready = get_condition(pod.status, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time
    meta = pod.metadata
    if meta.deletion_timestamp is not None:
        return meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)
    return meta.creation_timestamp or now()


def _containers_finished_at(pod: Pod) -> datetime | None:
    status, spec = pod.status, pod.spec
    if status is None or spec is None:
        return None
    sidecars = {each.name for each in spec.init_containers or () if each.restart_policy == "Always"}
    init = [each for each in status.init_container_statuses or () if each.name in sidecars]
    latest: datetime | None = None
    for container in (*(status.container_statuses or ()), *init):
        terminated = container.state.terminated if container.state is not None else None
        if terminated is None or terminated.finished_at is None:
            return None
        latest = terminated.finished_at if latest is None else max(latest, terminated.finished_at)
    return latest


def restarts(pod: Pod) -> int:
    """Return the number of restarts of all containers of a pod."""
    status = pod.status
    if status is None:
        return 0
    containers: Iterable[ContainerStatus] = (
        *(status.init_container_statuses or ()),
        *(status.container_statuses or ()),
    )
    return sum(each.restart_count or 0 for each in containers)


def deletion_order(pod: Pod) -> tuple[object, ...]:
    """Return a sort key: pods that have made the least progress are deleted first."""
    ready = get_condition(pod.status, "Ready")
    ready_since = ready.last_transition_time if ready is not None and ready.status == "True" else None
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec is not None and pod.spec.node_name),
        {"Pending": 0, "Unknown": 1, "Running": 2}.get(phase_of(pod), 3),
        is_ready(pod),
        -ready_since.timestamp() if ready_since is not None else -math.inf,
        -restarts(pod),
        -created.timestamp() if created is not None else 0.0,
    )


def parse_indexes(text: str | None, completions: int) -> set[int]:
    """Parse indexes; those that are not less than `completions` are left out, malformed parts ignored."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        try:
            start, end = int(first), int(last or first)
        except ValueError:
            continue
        found.update(range(start, min(end, completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Format indexes in increasing order; three or more in sequence become an interval."""
    parts: list[str] = []
    first = last = -2
    for index in sorted(indexes):
        if index == last + 1:
            last = index
            continue
        if first >= 0:
            parts.append(_interval(first, last))
        first = last = index
    if first >= 0:
        parts.append(_interval(first, last))
    return ",".join(parts)


def _interval(first: int, last: int) -> str:
    if first == last:
        return str(first)
    separator = "," if last == first + 1 else "-"
    return f"{first}{separator}{last}"
