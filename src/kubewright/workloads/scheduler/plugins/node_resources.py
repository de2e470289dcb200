"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests of pods and resources of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from kubewright.api.core.v1 import Node, Pod
from kubewright.workloads.scheduler.framework.cluster_events import Action, ClusterEvent, Hint
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from kubewright.workloads.scheduler.framework.status import SKIP, Code, SchedulingStatus
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.pod_info import PodInfo
from kubewright.workloads.scheduler.state.resources import CPU, MEMORY, Resources, is_extended, is_scalar

Strategy = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
_DEFAULT_RESOURCES: Mapping[str, int] = {CPU: 1, MEMORY: 1}
MAX_SHAPE_SCORE = 10


class NodeResourcesFit(Plugin):
    """Rejects nodes without enough free resources, and scores nodes by their utilization.

    Arguments: `strategy`; `resources`, the weights of resources in the score; `shape`, points (utilization in
    percent, score 0 to 10) for RequestedToCapacityRatio; `ignored_resources` and `ignored_resource_groups`,
    extended resources that are not checked.
    """

    def __init__(
        self,
        handle: Handle,
        strategy: Strategy = "LeastAllocated",
        resources: Mapping[str, int] = _DEFAULT_RESOURCES,
        shape: Sequence[tuple[int, int]] = ((0, 0), (100, 10)),
        ignored_resources: Iterable[str] = (),
        ignored_resource_groups: Iterable[str] = (),
    ) -> None:
        super().__init__(handle)
        self._resources = tuple(resources.items())
        self._ignored = frozenset(ignored_resources)
        self._ignored_groups = frozenset(ignored_resource_groups)
        for extender in handle.extenders:
            self._ignored |= frozenset(getattr(extender, "ignored_by_scheduler", ()))
        rate: dict[str, Callable[[int, int], int]] = {
            "LeastAllocated": _least_allocated,
            "MostAllocated": _most_allocated,
            "RequestedToCapacityRatio": _piecewise_linear(shape),
        }
        if strategy not in rate:
            raise TypeError(f"unknown strategy {strategy!r}; expected one of {', '.join(rate)}")
        self._rate = rate[strategy]
        self._is_ratio = strategy == "RequestedToCapacityRatio"
        self._is_simple = strategy == "LeastAllocated" and self._resources == ((CPU, 1), (MEMORY, 1))

    def events(self) -> Iterable[ClusterEvent]:
        """Resources are freed or added."""
        return (
            ClusterEvent("Pod", Action.DELETE | Action.UPDATE_POD_SCALE_DOWN, self._after_pod_change),
            ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._after_node_change),
        )

    def _after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        if new is None or new.metadata.uid == pod.uid:
            return Hint.QUEUE
        if not (new.spec and new.spec.node_name) or old is None:
            return Hint.SKIP
        before, after = PodInfo(old).requests, PodInfo(new).requests
        wanted = _names(pod.requests)
        return Hint.QUEUE if any(before.get(each) > after.get(each) for each in wanted) else Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        if new is None or self._reasons(pod, NodeInfo(new)):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before, after = NodeInfo(old).allocatable, NodeInfo(new).allocatable
        wanted = ("pods", *_names(pod.requests))
        return Hint.QUEUE if any(after.get(each) > before.get(each) for each in wanted) else Hint.SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> SchedulingStatus | None:
        """Reject nodes without enough free resources; unresolvable if an empty node is too small."""
        request, free, used = pod.requests, node.allocatable, node.requested
        if (
            not request.scalars
            and len(node.pods) < free.pods
            and request.milli_cpu <= free.milli_cpu - used.milli_cpu
            and request.memory <= free.memory - used.memory
            and not request.ephemeral_storage
        ):
            return None
        reasons = self._reasons(pod, node)
        if not reasons:
            return None
        unresolvable = any(is_unresolvable for _, is_unresolvable in reasons)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE
        return SchedulingStatus(code, *(reason for reason, _ in reasons))

    def _reasons(self, pod: PodInfo, node: NodeInfo) -> list[tuple[str, bool]]:
        """Return what is insufficient, and whether the whole node is too small."""
        reasons: list[tuple[str, bool]] = []
        request, allocatable, used = pod.requests, node.allocatable, node.requested
        if len(node.pods) + 1 > allocatable.pods:
            reasons.append(("Too many pods", False))
        for name in _names(request):
            amount, capacity = request.get(name), allocatable.get(name)
            if is_extended(name) and (
                name in self._ignored or name.partition("/")[0] in self._ignored_groups
            ):
                continue
            if amount > capacity - used.get(name):
                reasons.append((f"Insufficient {name}", amount > capacity))
        return reasons

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate the utilization of the node with the pod on it."""
        if self._is_simple:
            capacity = node.allocatable
            cpu, memory = capacity.milli_cpu, capacity.memory
            if cpu and memory:
                free_cpu = cpu - node.non_zero_cpu - pod.non_zero_cpu
                free_memory = memory - node.non_zero_memory - pod.non_zero_memory
                return (
                    (free_cpu * MAX_NODE_SCORE // cpu if free_cpu > 0 else 0)
                    + (free_memory * MAX_NODE_SCORE // memory if free_memory > 0 else 0)
                ) // 2
        total = weights = 0
        for name, weight in self._resources:
            requested, capacity_of = _with_pod(pod, node, name)
            if not capacity_of:
                continue
            score = self._rate(requested, capacity_of)
            if self._is_ratio and score <= 0:
                continue
            total += score * weight
            weights += weight
        if not weights:
            return 0
        return _round(total / weights) if self._is_ratio else total // weights


class NodeResourcesBalancedAllocation(Plugin):
    """Prefers nodes whose resources are used to the same degree.

    Argument: `resources`, the names of the resources.
    """

    def __init__(self, handle: Handle, resources: Iterable[str] = (CPU, MEMORY)) -> None:
        super().__init__(handle)
        self._resources = tuple(resources)
        self._is_simple = self._resources == (CPU, MEMORY)

    def events(self) -> Iterable[ClusterEvent]:
        """No pod is rejected."""
        return ()

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> SchedulingStatus | None:
        """Skip pods that request none of the resources, which would all be placed on the same node."""
        return None if any(pod.requests.get(name) for name in self._resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Compare the balance with and without the pod: 75 if it does not change."""
        if self._is_simple:
            capacity, used, request = node.allocatable, node.requested, pod.requests
            cpu, memory = capacity.milli_cpu, capacity.memory
            if cpu and memory:
                cpu_before, memory_before = used.milli_cpu / cpu, used.memory / memory
                cpu_after = (used.milli_cpu + request.milli_cpu) / cpu
                memory_after = (used.memory + request.memory) / memory
                if cpu_after <= 1 and memory_after <= 1:
                    return (
                        50
                        + (
                            50
                            + int((1 - abs(cpu_after - memory_after) / 2) * MAX_NODE_SCORE)
                            - int((1 - abs(cpu_before - memory_before) / 2) * MAX_NODE_SCORE)
                        )
                        // 2
                    )
        before: list[float] = []
        after: list[float] = []
        for name in self._resources:
            wanted, available = pod.requests.get(name), node.allocatable.get(name)
            if not available or (wanted == 0 and is_scalar(name)):
                continue
            taken = node.requested.get(name)
            before.append(min(1.0, taken / available))
            after.append(min(1.0, (taken + wanted) / available))
        half = MAX_NODE_SCORE // 2
        return half + _truncated_half(half + _balance(after) - _balance(before))


def _balance(fractions: list[float]) -> int:
    """100 if all fractions are the same, less the more they differ."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((each - mean) ** 2 for each in fractions) / len(fractions))
    return int((1 - deviation) * MAX_NODE_SCORE)


def _truncated_half(value: int) -> int:
    return value // 2 if value >= 0 else -(-value // 2)


def _names(request: Resources) -> list[str]:
    """Names of the resources that are requested."""
    names = [name for name in (CPU, MEMORY, "ephemeral-storage") if request.get(name) > 0]
    return names + [name for name, amount in request.scalars.items() if amount]


def _with_pod(pod: PodInfo, node: NodeInfo, name: str) -> tuple[int, int]:
    """Return the amount that is requested with the pod on the node, and the allocatable amount."""
    capacity = node.allocatable.get(name)
    if name == CPU:
        return node.non_zero_cpu + pod.non_zero_cpu, capacity
    if name == MEMORY:
        return node.non_zero_memory + pod.non_zero_memory, capacity
    request = pod.requests.get(name)
    if request == 0 and is_scalar(name):
        return 0, 0
    return node.requested.get(name) + request, capacity


def _least_allocated(requested: int, capacity: int) -> int:
    return (capacity - requested) * MAX_NODE_SCORE // capacity if requested <= capacity else 0


def _most_allocated(requested: int, capacity: int) -> int:
    return min(requested, capacity) * MAX_NODE_SCORE // capacity


def _round(value: float) -> int:
    return math.floor(value + 0.5)


def _piecewise_linear(shape: Sequence[tuple[int, int]]) -> Callable[[int, int], int]:
    """Return the score of a utilization, interpolated between the points of a shape."""
    points = [(use, score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for use, score in shape]

    def rate(requested: int, capacity: int) -> int:
        use = 100 if requested > capacity else requested * 100 // capacity
        for index, (limit, score) in enumerate(points):
            if use <= limit:
                if index == 0:
                    return score
                low_use, low_score = points[index - 1]
                rise: Any = (score - low_score) * (use - low_use)
                return low_score + int(rise / (limit - low_use))
        return points[-1][1]

    return rate
