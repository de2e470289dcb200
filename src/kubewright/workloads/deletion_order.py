"""The order in which a ReplicaSet deletes pods when it is scaled down.

Pods that were not started go first: without a node, pending, not ready; then those with the lower
`controller.kubernetes.io/pod-deletion-cost`, those on nodes with more pods of the same owner, those that have
been ready for a shorter time, that were restarted more often, and that were created later. Times are compared
by their logarithm, so that pods of about the same age are deleted in a random order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import cmp_to_key

from .pods import PodSummary

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_MAX_INT32 = (1 << 31) - 1


def pods_to_delete(
    pods: list[PodSummary], related: Iterable[PodSummary], count: int, now: datetime
) -> list[PodSummary]:
    """Return `count` of the pods; `related` are the pods of all ReplicaSets of the same owner."""
    if count >= len(pods):
        return pods
    on_node = Counter(pod.spec.node_name for pod in related if pod.is_active)

    def compare(one: PodSummary, other: PodSummary) -> int:
        return _compare(one, other, on_node, now)

    return sorted(pods, key=cmp_to_key(compare))[:count]


def _compare(one: PodSummary, other: PodSummary, on_node: Counter[str], now: datetime) -> int:
    first = (
        bool(one.spec.node_name) - bool(other.spec.node_name)
        or _PHASES.get(one.status.phase, 0) - _PHASES.get(other.status.phase, 0)
        or one.is_ready - other.is_ready
        or deletion_cost(one) - deletion_cost(other)
        or on_node[other.spec.node_name] - on_node[one.spec.node_name]
    )
    if first:
        return first
    if one.is_ready and other.is_ready and one.ready_since != other.ready_since:
        return _compare_times(one.ready_since, other.ready_since, one, other, now)
    (restarts, sidecar_restarts), (other_restarts, other_sidecar_restarts) = _restarts(one), _restarts(other)
    restarted = other_restarts - restarts or other_sidecar_restarts - sidecar_restarts
    if restarted:
        return restarted
    if one.created != other.created:
        return _compare_times(one.created, other.created, one, other, now)
    return 0


def _compare_times(
    one: datetime | None, other: datetime | None, first: PodSummary, second: PodSummary, now: datetime
) -> int:
    """Compare ages: the younger one is smaller; ages of the same magnitude are compared by uid."""
    if one is None or other is None:
        return -1 if one is None else 1
    difference = _rank(one, now) - _rank(other, now)
    if difference:
        return difference
    return -1 if first.metadata.uid < second.metadata.uid else 1


def _rank(time: datetime, now: datetime) -> int:
    nanoseconds = (now - time).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def deletion_cost(pod: PodSummary) -> int:
    """Return the deletion cost in the annotation of a pod; 0 if it is missing or invalid."""
    text = pod.annotations.get(DELETION_COST, "")
    try:
        cost = int(text)
    except ValueError:
        return 0
    canonical = str(cost) == text and -_MAX_INT32 - 1 <= cost <= _MAX_INT32
    return cost if canonical else 0


def _restarts(pod: PodSummary) -> tuple[int, int]:
    sidecars = {each.name for each in pod.spec.init_containers or () if each.restart_policy == "Always"}
    return (
        max((each.restart_count for each in pod.status.container_statuses or ()), default=0),
        max(
            (
                each.restart_count
                for each in pod.status.init_container_statuses or ()
                if each.name in sidecars
            ),
            default=0,
        ),
    )
