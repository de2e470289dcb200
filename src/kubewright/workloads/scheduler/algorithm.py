"""Select a node for a pod: filter the nodes, score those that fit, take one with the highest score."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass

from .extender import MAX_EXTENDER_PRIORITY, Extender, ExtenderError
from .framework.cycle_state import CycleState
from .framework.framework import Framework
from .framework.plugin import MAX_NODE_SCORE
from .framework.status import Diagnosis, FitError, NoNodesAvailable, SchedulingStatus
from .state.cache import Snapshot
from .state.node_info import NodeInfo
from .state.pod_info import PodInfo

logger = logging.getLogger(__name__)

MIN_FEASIBLE_NODES = 100
"""Clusters up to this size are searched completely."""
MIN_FEASIBLE_PERCENTAGE = 5
ANY_EVENT = "*"
"""In the plug-ins that rejected a pod: any event requeues it. Extenders have no queueing hints."""


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The selected node."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int


class SchedulingAlgorithm:
    """Searches a node in a snapshot. The search continues where that of the previous pod ended."""

    def __init__(
        self,
        snapshot: Snapshot,
        extenders: Sequence[Extender] = (),
        *,
        rng: random.Random | None = None,
        percentage_of_nodes_to_score: int = 0,
    ) -> None:
        self._snapshot = snapshot
        self._extenders = extenders
        self._rng = rng or random.Random()  # noqa: S311 - breaks ties, guards nothing
        self._percentage = percentage_of_nodes_to_score
        self._start = 0

    async def schedule(self, framework: Framework, state: CycleState, pod: PodInfo) -> ScheduleResult:
        """Return a node; raise `FitError` if no node fits, `NoNodesAvailable` without nodes."""
        if not self._snapshot.nodes:
            raise NoNodesAvailable
        nodes, diagnosis = await self._find(framework, state, pod)
        if not nodes:
            raise FitError(len(self._snapshot), diagnosis)
        evaluated = len(nodes) + len(diagnosis.node_statuses)
        if len(nodes) == 1:
            return ScheduleResult(nodes[0].name, evaluated, 1)
        scores = await self._score(framework, state, pod, nodes)
        best = max(scores)
        candidates = [index for index, score in enumerate(scores) if score == best]
        selected = candidates[0] if len(candidates) == 1 else self._rng.choice(candidates)
        return ScheduleResult(nodes[selected].name, evaluated, len(nodes))

    async def _find(
        self, framework: Framework, state: CycleState, pod: PodInfo
    ) -> tuple[list[NodeInfo], Diagnosis]:
        snapshot, diagnosis = self._snapshot, Diagnosis()
        names, rejection, restricting = framework.pre_filter(state, pod, snapshot.nodes)
        diagnosis.unschedulable_plugins = restricting
        if rejection is not None:
            if not rejection.is_rejected:
                raise rejection.error or RuntimeError(rejection.message)
            diagnosis.absent_status = rejection
            diagnosis.pre_filter_message = rejection.message
            diagnosis.add_plugin(rejection)
            return [], diagnosis
        nominated = snapshot.by_name.get(pod.nominated_node_name) if pod.nominated_node_name else None
        if nominated is not None:
            found = self._filter(framework, state, pod, [nominated], 0, 1, Diagnosis())
            found = await self._ask_extenders(pod, found, Diagnosis())
            if found:
                return found, diagnosis
        nodes: Sequence[NodeInfo] = snapshot.nodes
        if names is not None:
            nodes = [info for name in sorted(names) if (info := snapshot.by_name.get(name)) is not None]
            plugins = " ".join(sorted(restricting))
            diagnosis.absent_status = SchedulingStatus.unresolvable(
                f"node(s) didn't satisfy plugin(s) [{plugins}]"
            )
        limit = self._feasible_limit(framework, len(nodes))
        found = self._filter(framework, state, pod, nodes, self._start, limit, diagnosis)
        self._start = (self._start + len(found) + len(diagnosis.node_statuses)) % len(snapshot)
        return await self._ask_extenders(pod, found, diagnosis), diagnosis

    def _filter(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        nodes: Sequence[NodeInfo],
        start: int,
        limit: int,
        diagnosis: Diagnosis,
    ) -> list[NodeInfo]:
        """Return up to `limit` nodes that fit, beginning the search at `start`."""
        count = len(nodes)
        if not count:
            return []
        start %= count
        plugins = framework.filters_for(state)
        check = framework.filter_with_nominated_pods if framework.handle.nominator else framework.filter
        feasible: list[NodeInfo] = []
        statuses = diagnosis.node_statuses
        for index in range(start, start + count):
            node = nodes[index if index < count else index - count]
            status = check(state, pod, node, plugins)
            if status is None:
                feasible.append(node)
                if len(feasible) >= limit:
                    break
            else:
                statuses[node.name] = status
                diagnosis.add_plugin(status)
        return feasible

    def _feasible_limit(self, framework: Framework, count: int) -> int:
        """Return the number of nodes that fit after which the search ends."""
        if not self._has_scoring(framework):
            return 1
        if count < MIN_FEASIBLE_NODES:
            return count
        percentage = framework.profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self._percentage
        if percentage == 0:
            percentage = max(MIN_FEASIBLE_PERCENTAGE, 50 - count // 125)
        return max(MIN_FEASIBLE_NODES, count * percentage // 100)

    def _has_scoring(self, framework: Framework) -> bool:
        return (
            framework.has_scorers
            or any(extender.is_prioritizer for extender in self._extenders)
            or any(extender.is_filter for extender in self._extenders)
        )

    async def _score(
        self, framework: Framework, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> list[int]:
        scores = framework.score(state, pod, nodes) if framework.has_scorers else [1] * len(nodes)
        extenders = [each for each in self._extenders if each.is_prioritizer and each.is_interested(pod.pod)]
        if not extenders:
            return scores
        results = await asyncio.gather(
            *(extender.prioritize(pod.pod, nodes) for extender in extenders), return_exceptions=True
        )
        for extender, result in zip(extenders, results, strict=True):
            if isinstance(result, BaseException):
                logger.warning(
                    "extender could not score nodes", extra={"extender": extender.name, "error": str(result)}
                )
                continue
            factor = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
            scores = [
                score + result.get(node.name, 0) * factor for node, score in zip(nodes, scores, strict=True)
            ]
        return scores

    async def _ask_extenders(
        self, pod: PodInfo, nodes: list[NodeInfo], diagnosis: Diagnosis
    ) -> list[NodeInfo]:
        """Return the nodes that all extenders accept."""
        for extender in self._extenders:
            if not nodes:
                break
            if not extender.is_filter or not extender.is_interested(pod.pod):
                continue
            try:
                result = await extender.filter(pod.pod, nodes)
            except ExtenderError as error:
                if not extender.ignorable:
                    raise
                logger.warning(
                    "ignored failed extender", extra={"extender": extender.name, "error": str(error)}
                )
                continue
            if len(result.nodes) != len(nodes):
                diagnosis.unschedulable_plugins.add(ANY_EVENT)
            diagnosis.node_statuses.update(result.rejected)
            nodes = result.nodes
        return nodes
