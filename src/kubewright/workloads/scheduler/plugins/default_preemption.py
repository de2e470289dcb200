"""DefaultPreemption: deletes pods of lower priority so that a pod fits.

For each node on which preemption can help, it simulates the removal of all pods of lower priority and then
adds back as many as possible, beginning with those whose disruption budget would be violated and those of
high priority. Of the remaining candidates it takes, in this order: fewest budget violations, lowest highest
priority, smallest sum of priorities, fewest victims, most recently started victims.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.core.v1 import Pod, PodCondition
from kubewright.api.errors import APIError, NotFound
from kubewright.api.meta import Preconditions
from kubewright.api.policy.v1 import PodDisruptionBudget
from kubewright.api.selectors.label_selectors import SelectorError, selector_of
from kubewright.client.errors import ConnectionFailed
from kubewright.workloads.scheduler.extender import ExtenderError, Victims
from kubewright.workloads.scheduler.framework.cluster_events import ClusterEvent
from kubewright.workloads.scheduler.framework.cycle_state import CycleState
from kubewright.workloads.scheduler.framework.handle import Handle
from kubewright.workloads.scheduler.framework.plugin import Plugin, PostFilterResult
from kubewright.workloads.scheduler.framework.status import Code, Diagnosis, FitError, SchedulingStatus
from kubewright.workloads.scheduler.pod_status import clear_nomination, patch_condition
from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.pod_info import PodInfo

logger = logging.getLogger(__name__)

PREEMPTION_REASON = "PreemptionByScheduler"
_MAX_INT32 = 2**31 - 1


@dataclass(slots=True)
class _Candidate:
    """A node with the pods that have to be deleted."""

    node_name: str
    victims: list[Pod]
    violations: int


class DefaultPreemption(Plugin):
    """Arguments: `min_candidate_nodes_percentage` and `min_candidate_nodes_absolute` limit the number of
    candidates to find.

    Permissions: `patch` of `pods/status`, `delete` of `pods`, `list` and `watch` of PodDisruptionBudgets.
    """

    kinds = (PodDisruptionBudget,)

    def __init__(
        self,
        handle: Handle,
        min_candidate_nodes_percentage: int = 10,
        min_candidate_nodes_absolute: int = 100,
    ) -> None:
        super().__init__(handle)
        self._percentage = min_candidate_nodes_percentage
        self._absolute = min_candidate_nodes_absolute
        self._preempting: set[str] = set()

    def events(self) -> Iterable[ClusterEvent]:
        """Pods are requeued by the plug-ins that rejected them, when the victims are deleted."""
        return ()

    def is_eligible_victim(self, node: NodeInfo, victim: PodInfo, pod: PodInfo) -> bool:
        """Override to protect pods from preemption; their priority is always lower."""
        return True

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        """Find victims, start to delete them, and nominate their node."""
        result = await self._preempt(state, pod, diagnosis)
        status = result.status
        if status is None or not status.reasons:
            return result
        return PostFilterResult(
            SchedulingStatus(status.code, f"preemption: {status.message}"), result.nominated_node
        )

    async def _preempt(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        reason = self._ineligible_reason(pod, diagnosis)
        if reason:
            return PostFilterResult(SchedulingStatus.unschedulable(reason))
        snapshot = self.handle.snapshot
        nodes = [
            node
            for node in snapshot.nodes
            if diagnosis.status_of(node.name).code in (Code.UNSCHEDULABLE, Code.PENDING)
        ]
        candidates, statuses = self._find_candidates(state, pod, nodes)
        if not candidates:
            absent = SchedulingStatus.unresolvable("Preemption is not helpful for scheduling")
            error = FitError(len(snapshot), Diagnosis(node_statuses=statuses, absent_status=absent))
            return PostFilterResult(SchedulingStatus.unschedulable(str(error)), "")
        candidates, failure = await self._ask_extenders(pod, candidates)
        if failure is not None:
            return PostFilterResult(failure)
        if not candidates:
            return PostFilterResult(SchedulingStatus.unschedulable("no candidate node for preemption"))
        best = select_candidate(candidates)
        self._start_preemption(pod, best)
        return PostFilterResult(None, best.node_name)

    def _ineligible_reason(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        spec = pod.pod.spec
        if spec is not None and spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = pod.nominated_node_name or self.handle.nominator.node_of(pod.uid)
        if not nominated:
            return ""
        if diagnosis.status_of(nominated).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        node = self.handle.snapshot.by_name.get(nominated)
        if pod.uid in self._preempting or (
            node is not None
            and any(
                self._is_allowed(node, other, pod) and _is_preempted(other) for other in node.pods.values()
            )
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _is_allowed(self, node: NodeInfo, victim: PodInfo, pod: PodInfo) -> bool:
        return victim.priority < pod.priority and self.is_eligible_victim(node, victim, pod)

    # Candidates

    def _find_candidates(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> tuple[list[_Candidate], dict[str, SchedulingStatus]]:
        if not nodes:
            return [], {}
        budgets = list(self.handle.lister.list(PodDisruptionBudget))
        wanted = min(len(nodes), max(len(nodes) * self._percentage // 100, self._absolute))
        offset = self.handle.rng.randrange(len(nodes))
        compliant: list[_Candidate] = []
        violating: list[_Candidate] = []
        statuses: dict[str, SchedulingStatus] = {}
        for position in range(len(nodes)):
            node = nodes[(offset + position) % len(nodes)].copy()
            found = self._select_victims(state.clone(), pod, node, budgets)
            if isinstance(found, SchedulingStatus):
                statuses[node.name] = found
                continue
            (violating if found.violations else compliant).append(found)
            if compliant and len(compliant) + len(violating) >= wanted:
                break
        return compliant + violating, statuses

    def _select_victims(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, budgets: Sequence[PodDisruptionBudget]
    ) -> _Candidate | SchedulingStatus:
        """Return the smallest set of victims on a node, or why preemption does not help there."""
        framework = self.handle.framework
        assert framework is not None

        def remove(other: PodInfo) -> None:
            node.remove_pod(other.uid)
            framework.remove_pod(state, pod, other, node)

        potential = [other for other in node.pods.values() if self._is_allowed(node, other, pod)]
        if not potential:
            return SchedulingStatus.unresolvable("No preemption victims found for incoming pod")
        for other in potential:
            remove(other)
        status = framework.filter_with_nominated_pods(state, pod, node)
        if status is not None:
            return status
        potential.sort(key=_importance)
        violating, compliant = _split_by_budget(potential, budgets)
        victims: list[PodInfo] = []
        violations = 0
        for other in (*violating, *compliant):
            node.add_pod(other)
            framework.add_pod(state, pod, other, node)
            if framework.filter_with_nominated_pods(state, pod, node) is not None:
                remove(other)
                victims.append(other)
                violations += other in violating
        if not victims:
            return SchedulingStatus(Code.ERROR, f'expected at least one victim pod on node "{node.name}"')
        victims.sort(key=_importance)
        return _Candidate(node.name, [other.pod for other in victims], violations)

    async def _ask_extenders(
        self, pod: PodInfo, candidates: list[_Candidate]
    ) -> tuple[list[_Candidate], SchedulingStatus | None]:
        extenders = [each for each in self.handle.extenders if each.supports_preemption]
        for extender in extenders:
            if not candidates or not extender.is_interested(pod.pod):
                continue
            victims = {each.node_name: Victims(each.victims, each.violations) for each in candidates}
            try:
                accepted = await extender.preempt(pod.pod, victims, self.handle.snapshot.by_name)
            except ExtenderError as error:
                if extender.ignorable:
                    continue
                return [], SchedulingStatus.from_error(error)
            empty = [name for name, found in accepted.items() if not found.pods]
            if empty and not extender.ignorable:
                return [], SchedulingStatus(
                    Code.ERROR, f'expected at least one victim pod on node "{empty[0]}"'
                )
            candidates = [
                _Candidate(name, found.pods, found.pdb_violations)
                for name, found in accepted.items()
                if found.pods
            ]
        return candidates, None

    # Deletion of victims

    def _start_preemption(self, pod: PodInfo, candidate: _Candidate) -> None:
        victims = [each for each in candidate.victims if each.metadata.deletion_timestamp is None]
        if self.handle.client is None or not victims:
            return
        self._preempting.add(pod.uid)
        self.handle.run_in_background(self._delete_victims(pod, candidate.node_name, victims))

    async def _delete_victims(self, pod: PodInfo, node_name: str, victims: Sequence[Pod]) -> None:
        client = self.handle.client
        assert client is not None
        try:
            for other in list(self.handle.nominator.pods_for(node_name)):
                # Lower priorities give way; they look for another node.
                if other.priority < pod.priority:
                    self.handle.nominator.remove(other.uid)
                    await clear_nomination(client, other.pod)
            results = await asyncio.gather(
                *(self._delete_victim(pod, node_name, victim) for victim in victims), return_exceptions=True
            )
        except (APIError, ConnectionFailed, OSError) as error:
            results = [error]
        finally:
            self._preempting.discard(pod.uid)
        for result in results:
            if isinstance(result, BaseException):
                logger.warning("could not preempt pod", extra={"pod": pod.key, "error": str(result)})
                self.handle.activate([pod])
                return

    async def _delete_victim(self, pod: PodInfo, node_name: str, victim: Pod) -> None:
        client = self.handle.client
        assert client is not None
        uid = victim.metadata.uid or ""
        message = f"Preempted by pod {pod.uid} on node {node_name}"
        waiting = self.handle.waiting_pods.get(uid)
        if waiting is not None and waiting.reject(self.name, "preempted"):
            message += " (in kube-scheduler memory)."
        else:
            condition = PodCondition(
                type="DisruptionTarget",
                status="True",
                reason=PREEMPTION_REASON,
                message=f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
                observed_generation=victim.metadata.generation,
            )
            try:
                await patch_condition(client, victim, condition)
                await client.delete(
                    Pod,
                    victim.metadata.name,
                    namespace=victim.metadata.namespace,
                    preconditions=Preconditions(uid=uid),
                )
            except NotFound:
                return
        self.handle.record_event(victim, "Normal", "Preempted", "Preempting", message, pod.pod)


def select_candidate(candidates: Sequence[_Candidate]) -> _Candidate:
    """Return the candidate whose victims matter least."""
    criteria: Sequence[Callable[[_Candidate], Any]] = (
        lambda each: each.violations,
        lambda each: _priority(each.victims[0]),
        # The offset makes priorities positive, so that more victims always have a larger sum.
        lambda each: sum(_priority(victim) + _MAX_INT32 + 1 for victim in each.victims),
        lambda each: len(each.victims),
        lambda each: -_earliest_start(each.victims),
    )
    left = list(candidates)
    for criterion in criteria:
        best = min(criterion(each) for each in left)
        left = [each for each in left if criterion(each) == best]
        if len(left) == 1:
            break
    return left[0]


def _priority(pod: Pod) -> int:
    return (pod.spec.priority if pod.spec else None) or 0


def _start_time(pod: Pod) -> float:
    start = pod.status.start_time if pod.status else None
    # Pods that are assumed, but not started, count as started now.
    return start.timestamp() if start is not None else float("inf")


def _earliest_start(victims: Sequence[Pod]) -> float:
    """Start time of the oldest victim of the highest priority."""
    highest = max(_priority(victim) for victim in victims)
    return min(_start_time(victim) for victim in victims if _priority(victim) == highest)


def _importance(pod: PodInfo) -> tuple[int, float]:
    return -pod.priority, _start_time(pod.pod)


def _is_preempted(pod: PodInfo) -> bool:
    if not pod.terminating:
        return False
    status = pod.pod.status
    return any(
        each.type == "DisruptionTarget" and each.status == "True" and each.reason == PREEMPTION_REASON
        for each in (status.conditions if status else None) or ()
    )


def _split_by_budget(
    pods: Sequence[PodInfo], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return the pods whose deletion would violate a disruption budget, and the others."""
    matchers = []
    for budget in budgets:
        try:
            selector = selector_of(budget.spec.selector if budget.spec else None)
        except SelectorError:
            continue
        if not selector.empty:
            matchers.append((budget, selector))
    allowed = [(budget.status.disruptions_allowed or 0) if budget.status else 0 for budget, _ in matchers]
    violating: list[PodInfo] = []
    compliant: list[PodInfo] = []
    for pod in pods:
        violates = False
        for index, (budget, selector) in enumerate(matchers):
            if budget.metadata.namespace != pod.namespace or not pod.labels:
                continue
            disrupted = (budget.status.disrupted_pods if budget.status else None) or {}
            if pod.name in disrupted or not selector.matches(pod.labels):
                continue
            allowed[index] -= 1
            violates = violates or allowed[index] < 0
        (violating if violates else compliant).append(pod)
    return violating, compliant
