"""`SchedulerCore`: queue, cache, plug-ins and the scheduling and binding cycles, without informers.

It can run alone, on objects that a program adds (`set_node`, `set_pod`), to simulate where pods would run;
`Scheduler` connects it to a cluster.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kubewright.api.core.v1 import Node, Pod, PodCondition
from kubewright.api.values.times import monotonic_time
from kubewright.client import Client

from .algorithm import ANY_EVENT, ScheduleResult, SchedulingAlgorithm
from .extender import Extender, ExtenderError
from .framework.cluster_events import (
    NODE_ADDED,
    NODE_DELETED,
    POD_ASSIGNED,
    POD_DELETED,
    Action,
    ClusterEvent,
    node_changes,
    pod_changes,
)
from .framework.cycle_state import CycleState
from .framework.framework import Framework
from .framework.handle import Handle
from .framework.listers import Lister, StaticLister
from .framework.profile import Profile, ProfileError
from .framework.status import Code, Diagnosis, FitError, NoNodesAvailable, SchedulingStatus
from .framework.waiting_pods import WaitingPod, WaitingPods
from .metrics import SchedulerMetrics
from .queue import QueuedPod, SchedulingQueue
from .state.cache import SchedulerCache, Snapshot
from .state.nominator import Nominator
from .state.pod_info import PodInfo, pod_uid

logger = logging.getLogger(__name__)

NOTE_LENGTH = 1024
"""Longest note of an event."""


class Reporter(Protocol):
    """Receives the results of scheduling."""

    def record_event(
        self, pod: Pod, type: Any, reason: str, action: str, message: str, related: Pod | None
    ) -> None:
        """Record an event about a pod."""

    def update_status(self, pod: Pod, condition: PodCondition, nominated_node: str | None) -> None:
        """Set a condition of a pod, and its nominated node unless that is `None`."""


class SilentReporter:
    """Reporter of simulations: results are not written anywhere."""

    def record_event(
        self, pod: Pod, type: Any, reason: str, action: str, message: str, related: Pod | None
    ) -> None:
        """Record nothing."""

    def update_status(self, pod: Pod, condition: PodCondition, nominated_node: str | None) -> None:
        """Write nothing."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod whose node was selected and reserved; `bind` completes it."""

    queued: QueuedPod
    pod: PodInfo
    framework: Framework
    state: CycleState
    result: ScheduleResult
    waiting: WaitingPod | None = None


class SchedulerCore:
    """The state and the algorithms of a scheduler."""

    def __init__(
        self,
        profiles: Sequence[Profile] = (Profile(),),
        *,
        lister: Lister | None = None,
        client: Client | None = None,
        reporter: Callable[[str], Reporter] | None = None,
        metrics: Callable[[str], SchedulerMetrics] | None = None,
        extenders: Sequence[Extender] = (),
        clock: Callable[[], float] = monotonic_time,
        rng: random.Random | None = None,
        percentage_of_nodes_to_score: int = 0,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        unschedulable_timeout: float = 300.0,
    ) -> None:
        """`reporter` and `metrics` return those of a profile, by scheduler name."""
        names = [profile.scheduler_name for profile in profiles]
        if not names or len(set(names)) != len(names):
            raise ProfileError("a scheduler needs profiles with different scheduler names")
        rng = rng or random.Random()  # noqa: S311 - breaks ties, guards nothing
        self.cache = SchedulerCache()
        self.snapshot = Snapshot()
        self.waiting_pods = WaitingPods()
        self.extenders = tuple(extenders)
        nominator = Nominator()
        self.reporters: dict[str, Reporter] = {
            name: reporter(name) if reporter is not None else SilentReporter() for name in names
        }
        self.metrics = {name: metrics(name) if metrics else SchedulerMetrics() for name in names}
        self._clock = clock
        self.frameworks: dict[str, Framework] = {}
        for profile in profiles:
            handle = Handle(
                snapshot=self.snapshot,
                lister=lister or StaticLister(),
                nominator=nominator,
                waiting_pods=self.waiting_pods,
                extenders=self.extenders,
                client=client,
                rng=rng,
                record_event=self.reporters[profile.scheduler_name].record_event,
                activate=self._activate,
            )
            self.frameworks[profile.scheduler_name] = Framework(profile, handle)
        self.queue = SchedulingQueue(
            self.frameworks,
            nominator,
            clock=clock,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            unschedulable_timeout=unschedulable_timeout,
        )
        for each in self.metrics.values():
            each.pending = self.queue.counts
        self.algorithm = SchedulingAlgorithm(
            self.snapshot,
            self.extenders,
            rng=rng,
            percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        )

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self.queue.activate(pods)

    # Changes of objects

    def set_node(self, node: Node) -> None:
        """A node was created or updated."""
        old = self.cache.node(node.metadata.name or "")
        self.cache.set_node(node)
        if old is None:
            self.queue.move_all(NODE_ADDED, None, node)
            return
        action = node_changes(old, node)
        if action:
            self.queue.move_all(ClusterEvent("Node", action), old, node)

    def remove_node(self, name: str) -> None:
        """A node was deleted."""
        old = self.cache.node(name)
        if old is not None:
            self.cache.remove_node(name)
            self.queue.move_all(NODE_DELETED, old, None)

    def set_pod(self, pod: Pod, old: Pod | None = None) -> None:
        """A pod was created or updated."""
        status = pod.status
        if status is not None and status.phase in ("Succeeded", "Failed"):
            self.remove_pod(pod)
            return
        info = PodInfo(pod)
        if info.node_name:
            self._set_assigned(info, old)
        elif info.scheduler_name in self.frameworks:
            self._set_pending(info, old)

    def _set_assigned(self, info: PodInfo, old: Pod | None) -> None:
        self.queue.remove(info.uid)
        known = self.cache.pod(info.uid)
        was_assumed = self.cache.is_assumed(info.uid)
        self.cache.set_pod(info)
        if known is None or was_assumed:
            self.queue.move_all(POD_ASSIGNED, None, info.pod)
            return
        before = old or known.pod
        action = pod_changes(before, info.pod)
        if action is not Action.UPDATE_OTHER:
            self.queue.move_all(ClusterEvent("Pod", action), before, info.pod)

    def _set_pending(self, info: PodInfo, old: Pod | None) -> None:
        if self.cache.is_assumed(info.uid):
            if info.terminating:
                self._release_assumed(info.uid)
            return
        known = self.queue.get(info.uid)
        if known is None:
            self.queue.add(info)
            return
        before = old or known.info.pod
        self.queue.update(info, ClusterEvent("Pod", pod_changes(before, info.pod)), before)
        nominated = (before.status.nominated_node_name if before.status else None) or ""
        if nominated and nominated != info.nominated_node_name:
            # Pods of the same or a lower priority can use the resources that were kept for this pod.
            priority = info.priority
            self.queue.move_all(POD_DELETED, before, None, only=lambda other: other.priority <= priority)

    def remove_pod(self, pod: Pod) -> None:
        """A pod was deleted or has finished."""
        uid = pod_uid(pod)
        if self.cache.is_assumed(uid):
            self._release_assumed(uid)
        nominated = self.queue.nominator.node_of(uid)
        self.queue.remove(uid)
        if self.cache.pod(uid) is not None:
            self.cache.remove_pod(uid)
            self.queue.move_all(POD_DELETED, pod, None)
        elif nominated:
            self.queue.move_all(POD_DELETED, pod, None)

    def _release_assumed(self, uid: str) -> None:
        """An assumed pod is being deleted: free its resources without waiting for the binding to fail."""
        info = self.cache.pod(uid)
        waiting = self.waiting_pods.get(uid)
        if waiting is None or not waiting.reject("", "removed"):
            self.cache.forget(uid)
        if info is not None:
            self.queue.move_all(POD_DELETED, info.pod, None)

    def reacts_to(self, kind: str) -> bool:
        """Whether a plug-in has registered events of a kind."""
        event = ClusterEvent(kind, Action.ALL)
        return any(framework.plugins_for(event) for framework in self.frameworks.values())

    def notify(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """An object of another kind has changed."""
        for framework in self.frameworks.values():
            framework.handle.notify_change()
        self.queue.move_all(event, old, new)

    # Cycles

    async def schedule_next(self) -> Placement | None:
        """Wait for the next pod and select a node for it; `None` if that failed."""
        return await self.schedule(await self.queue.pop())

    async def schedule(self, queued: QueuedPod) -> Placement | None:
        """Select and reserve a node for a pod that was popped from the queue; `None` if that failed."""
        pod = queued.info
        framework = self.frameworks[pod.scheduler_name]
        if pod.terminating:
            framework.handle.record_event(
                pod.pod,
                "Warning",
                "FailedScheduling",
                "Scheduling",
                f"skip schedule deleting pod: {pod.key}",
                None,
            )
            self.queue.done(pod.uid)
            return None
        if self.cache.pod(pod.uid) is not None:
            self.queue.done(pod.uid)
            return None
        queued.started = self._clock()
        self.cache.update_snapshot(self.snapshot)
        state = CycleState()
        try:
            result = await self.algorithm.schedule(framework, state, pod)
        except NoNodesAvailable as error:
            status = SchedulingStatus(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, str(error))
            self._fail(framework, queued, status, "", diagnosis=Diagnosis(unschedulable_plugins={ANY_EVENT}))
            return None
        except FitError as error:
            await self._try_post_filter(framework, state, queued, error)
            return None
        except Exception as error:
            self._log_error(pod, error)
            self._fail(framework, queued, SchedulingStatus.from_error(error), "")
            return None
        return self._reserve(framework, state, queued, result)

    def _log_error(self, pod: PodInfo, error: BaseException) -> None:
        logger.error(
            "could not schedule pod",
            extra={"pod": pod.key, "error": f"{type(error).__name__}: {error}"},
            exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
        )

    async def _try_post_filter(
        self, framework: Framework, state: CycleState, queued: QueuedPod, error: FitError
    ) -> None:
        diagnosis = error.diagnosis
        nominated: str | None = ""
        if framework.has_post_filters:
            self.metrics[framework.name].preemption_attempts += 1
            try:
                status, nominated = await framework.post_filter(state, queued.info, diagnosis)
                diagnosis.post_filter_message = status.message if status is not None else ""
            except Exception as failure:
                self._log_error(queued.info, failure)
                diagnosis.post_filter_message, nominated = str(failure), None
        self._fail(
            framework,
            queued,
            SchedulingStatus(Code.UNSCHEDULABLE, str(error)),
            nominated,
            diagnosis=diagnosis,
        )

    def _reserve(
        self, framework: Framework, state: CycleState, queued: QueuedPod, result: ScheduleResult
    ) -> Placement | None:
        """Assume the pod on its node and run Reserve and Permit."""
        node_name = result.node_name
        assumed = PodInfo(queued.info.pod, node_name=node_name)
        self.cache.assume(assumed)
        self.queue.nominator.remove(assumed.uid)
        try:
            outcome = framework.reserve(state, assumed, node_name)
            permit = framework.permit(state, assumed, node_name) if outcome is None else None
        except Exception as error:
            outcome, permit = SchedulingStatus.from_error(error), None
            self._log_error(assumed, error)
        if isinstance(permit, SchedulingStatus):
            outcome = permit
        if outcome is not None:
            framework.unreserve(state, assumed, node_name)
            self.cache.forget(assumed.uid)
            self._reject(framework, queued, node_name, outcome)
            return None
        waiting = permit if isinstance(permit, WaitingPod) else None
        return Placement(queued, assumed, framework, state, result, waiting)

    async def bind(self, placement: Placement) -> bool:
        """Run the binding cycle; return whether the pod is bound."""
        framework, pod, state = placement.framework, placement.pod, placement.state
        node_name = placement.result.node_name
        if placement.waiting is not None:
            try:
                status = await placement.waiting.wait()
            finally:
                self.waiting_pods.remove(pod.uid)
            if status is not None:
                self._undo(placement)
                self._reject(framework, placement.queued, node_name, status)
                self.queue.move_all(POD_DELETED, pod.pod, None, only=lambda other: other.uid != pod.uid)
                return False
        self.queue.done(pod.uid)
        status = await framework.pre_bind(state, pod, node_name)
        if status is None:
            status = await self._bind(placement)
        if status is None:
            elapsed = self._clock() - placement.queued.started
            self.metrics[framework.name].observe("scheduled", elapsed)
            framework.handle.record_event(
                pod.pod,
                "Normal",
                "Scheduled",
                "Binding",
                f"Successfully assigned {pod.key} to {node_name}",
                None,
            )
            await framework.post_bind(state, pod, node_name)
            return True
        self._undo(placement)
        self.queue.move_all(POD_DELETED, pod.pod, None)
        self._fail(framework, placement.queued, status, "")
        return False

    async def _bind(self, placement: Placement) -> SchedulingStatus | None:
        pod = placement.pod
        for extender in self.extenders:
            if not extender.is_binder or not extender.is_interested(pod.pod):
                continue
            try:
                await extender.bind(pod.pod, placement.result.node_name)
            except ExtenderError as error:
                if extender.ignorable:
                    continue
                return SchedulingStatus.from_error(error)
            return None
        return await placement.framework.bind(placement.state, pod, placement.result.node_name)

    def _undo(self, placement: Placement) -> None:
        placement.framework.unreserve(placement.state, placement.pod, placement.result.node_name)
        self.cache.forget(placement.pod.uid)

    # Failures

    def _reject(
        self, framework: Framework, queued: QueuedPod, node_name: str, status: SchedulingStatus
    ) -> None:
        """A plug-in rejected the pod after its node was selected."""
        if not status.is_rejected:
            self._fail(framework, queued, status, "")
            return
        diagnosis = Diagnosis(node_statuses={node_name: status})
        diagnosis.add_plugin(status)
        text = str(FitError(1, diagnosis))
        self._fail(framework, queued, SchedulingStatus(status.code, text), "", diagnosis=diagnosis)

    def _fail(
        self,
        framework: Framework,
        queued: QueuedPod,
        status: SchedulingStatus,
        nominated: str | None,
        *,
        diagnosis: Diagnosis | None = None,
    ) -> None:
        """Return the pod to the queue and report why it was not scheduled."""
        queued.unschedulable_plugins = set(diagnosis.unschedulable_plugins) if diagnosis else set()
        queued.pending_plugins = set(diagnosis.pending_plugins) if diagnosis else set()
        self.metrics[framework.name].observe(
            "unschedulable" if status.is_rejected else "error", self._clock() - queued.started
        )
        uid = queued.info.uid
        if self.queue.get(uid) is not queued:
            # Deleted or bound in the meantime.
            self.queue.done(uid)
            return
        self.queue.add_unschedulable(queued)
        info = queued.info
        if nominated is not None:
            self.queue.nominator.set(info, nominated)
        elif info.nominated_node_name:
            self.queue.nominator.set(info, info.nominated_node_name)
        text = status.message
        note = text if len(text) <= NOTE_LENGTH else f"{text[: NOTE_LENGTH - 4]} ..."
        reporter = self.reporters[framework.name]
        reporter.record_event(info.pod, "Warning", "FailedScheduling", "Scheduling", note, None)
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable" if status.is_rejected else "SchedulerError",
            message=text,
            observed_generation=info.generation or None,
        )
        reporter.update_status(info.pod, condition, nominated)

    async def run_until_idle(self) -> int:
        """Schedule and bind all pods that are ready; return how many were bound. For simulations."""
        bound = 0
        while (queued := self.queue.pop_now()) is not None:
            placement = await self.schedule(queued)
            if placement is None:
                continue
            if placement.waiting is not None:
                raise RuntimeError("a simulation cannot wait for Permit plug-ins")
            if await self.bind(placement):
                bound += 1
                self.queue.remove(placement.pod.uid)
                self.cache.set_pod(placement.pod)
                self.queue.move_all(POD_ASSIGNED, None, placement.pod.pod)
        return bound

    async def aclose(self) -> None:
        """Reject waiting pods, and wait for work in the background."""
        for metrics in self.metrics.values():
            metrics.detach()
        for waiting in self.waiting_pods:
            waiting.reject("", "scheduler is stopping")
        for framework in self.frameworks.values():
            await framework.handle.wait_for_background()
        await asyncio.gather(
            *(each.aclose() for each in self.extenders if hasattr(each, "aclose")), return_exceptions=True
        )
