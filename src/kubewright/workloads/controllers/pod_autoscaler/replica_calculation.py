"""Formulas for the number of replicas from the values of a metric.

All values are in thousandths. Pods that are not ready yet, or whose metrics are missing, count as using
nothing when the result would be more replicas, and as using their target when it would be fewer, so that they
never cause a change by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Container, Pod

CPU_INITIALIZATION_PERIOD = 300.0
INITIAL_READINESS_DELAY = 30.0
MAX_REPLICAS = 2**31 - 1


class MetricError(Exception):
    """The number of replicas cannot be computed from a metric."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Deviations from the target that do not change the number of replicas."""

    down: float = 0.1
    up: float = 0.1

    def includes(self, ratio: float) -> bool:
        """Whether a ratio of usage to target is within the tolerance."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class PodGroups(NamedTuple):
    """Pods by how their metrics are used."""

    ready: int
    unready: set[str]
    missing: set[str]


def group_pods(pods: list[Pod], metrics: dict[str, int], *, resource: str, now: datetime) -> PodGroups:
    """Group pods, and remove the metrics of those that are ignored or not ready."""
    ready = 0
    unready: set[str] = set()
    missing: set[str] = set()
    for pod in pods:
        phase = pod.status.phase if pod.status is not None else "Pending"
        if pod.metadata.deletion_timestamp is not None or phase == "Failed":
            metrics.pop(pod.name, None)
        elif phase == "Pending" or (resource == "cpu" and pod.name in metrics and _is_starting(pod, now)):
            unready.add(pod.name)
            metrics.pop(pod.name, None)
        elif pod.name not in metrics:
            missing.add(pod.name)
        else:
            ready += 1
    return PodGroups(ready, unready, missing)


def _is_starting(pod: Pod, now: datetime) -> bool:
    """Whether the CPU usage of a pod is that of its initialization."""
    ready = get_condition(pod.status, "Ready")
    started = pod.status.start_time if pod.status is not None else None
    if ready is None or started is None:
        return True
    if ready.status != "False":
        return False
    if started + timedelta(seconds=CPU_INITIALIZATION_PERIOD) > now:
        return True
    changed = ready.last_transition_time
    return changed is not None and started + timedelta(seconds=INITIAL_READINESS_DELAY) > changed


def replicas_by_ratio(
    current: int,
    metrics: dict[str, int],
    groups: PodGroups,
    tolerance: Tolerance,
    *,
    ratio_of: Callable[[dict[str, int]], float],
    fallback: Callable[[str], int],
) -> int:
    """Return the replicas that bring a metric per pod to its target.

    `ratio_of` computes usage divided by target; `fallback` returns what a pod without metrics uses when the
    number of replicas would decrease.
    """
    ratio = ratio_of(metrics)
    grows_with_unready = bool(groups.unready) and ratio > 1.0
    if not grows_with_unready and not groups.missing:
        if tolerance.includes(ratio):
            return current
        return _ceil(ratio * groups.ready)
    if ratio < 1.0:
        metrics.update({name: fallback(name) for name in groups.missing})
    elif ratio > 1.0:
        metrics.update(dict.fromkeys(groups.missing, 0))
    if grows_with_unready:
        metrics.update(dict.fromkeys(groups.unready, 0))
    new = ratio_of(metrics)
    if tolerance.includes(new) or (ratio < 1.0 < new) or (ratio > 1.0 > new):
        return current
    replicas = _ceil(new * len(metrics))
    if (new < 1.0 and replicas > current) or (new > 1.0 and replicas < current):
        return current
    return replicas


def utilization(metrics: dict[str, int], requests: dict[str, int], target: int) -> tuple[float, int, int]:
    """Return usage divided by target, usage in percent of the requests, and the average usage."""
    known = [name for name in metrics if name in requests]
    requested = sum(requests[name] for name in known)
    if requested == 0:
        raise MetricError("no metrics returned matched known pods")
    used = sum(metrics[name] for name in known)
    percent = used * 100 // requested
    return percent / target, percent, used // len(known)


def average(metrics: dict[str, int]) -> int:
    """Return the average of the values."""
    return sum(metrics.values()) // len(metrics)


def replicas_by_total(current: int, ratio: float, tolerance: Tolerance, ready_pods: Callable[[], int]) -> int:
    """Return the replicas that bring a metric of the whole workload to its target."""
    if current == 0:
        return _ceil(ratio)
    return current if tolerance.includes(ratio) else _ceil(ratio * ready_pods())


def replicas_by_average(current: int, usage: int, target: int, tolerance: Tolerance) -> tuple[int, int]:
    """Return the replicas that bring a metric per replica to its target, and the current average."""
    divisor = current or 1
    ratio = usage / (target * divisor)
    replicas = current if tolerance.includes(ratio) else _ceil(usage / target)
    return replicas, math.ceil(usage / divisor)


def pod_requests(pods: list[Pod], resource: str, container: str) -> dict[str, int]:
    """Return the requests of pods; raises `MetricError` if one is missing."""
    return {pod.name: _request(pod, resource, container) for pod in pods}


def _request(pod: Pod, resource: str, container: str) -> int:
    spec = pod.spec
    assert spec is not None
    pod_level = (spec.resources.requests if spec.resources is not None else None) or {}
    if not container and resource in pod_level:
        return pod_level[resource].as_int(-3)
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    containers: list[Container] = [*(spec.containers or ()), *sidecars]
    chosen = [each for each in containers if container in ("", each.name)]
    if container and not chosen:
        raise MetricError(f"container {container} not found in Pod {pod.name}")
    total = 0
    for each in chosen:
        requests = (each.resources.requests if each.resources is not None else None) or {}
        if resource not in requests:
            raise MetricError(f"missing request for {resource} in container {each.name} of Pod {pod.name}")
        total += requests[resource].as_int(-3)
    return total


def _ceil(value: float) -> int:
    return MAX_REPLICAS if value > MAX_REPLICAS else math.ceil(value)
