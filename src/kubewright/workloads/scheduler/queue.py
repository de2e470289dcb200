"""`SchedulingQueue`: pods that wait to be scheduled.

- *active*: to be scheduled now, in the order of the QueueSort plug-in
- *backoff*: to be retried after a delay that doubles with each attempt, 1 s to 10 s; if the active queue is
  empty, pods are retried earlier, except after errors
- *unschedulable*: rejected by plug-ins; requeued by a cluster event that the plug-ins have registered, or
  after five minutes
- *gated*: rejected by PreEnqueue plug-ins, such as pods with scheduling gates

Events that occur while a pod is being scheduled are kept and evaluated when it is rejected, so no change is
missed.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .framework.cluster_events import ClusterEvent, Hint
from .framework.framework import Framework
from .state.nominator import Nominator
from .state.pod_info import PodInfo

INITIAL_BACKOFF = 1.0
MAX_BACKOFF = 10.0
UNSCHEDULABLE_TIMEOUT = 300.0

Place = Literal["active", "backoff", "error-backoff", "unschedulable", "gated", "in-flight", ""]
_ChangeRecord = tuple[ClusterEvent, Any, Any]


@dataclass(slots=True, eq=False, repr=False)
class QueuedPod:
    """A pod in the queue, with the results of its previous attempts."""

    info: PodInfo
    added: float
    """When the pod was first seen."""
    timestamp: float = field(init=False)
    """When the pod was added to the current part of the queue."""
    attempts: int = 0
    failures: int = 0
    """Number of attempts in which the pod was rejected."""
    errors: int = 0
    """Number of consecutive errors."""
    expires: float = 0.0
    place: Place = ""
    gate: str = ""
    """The PreEnqueue plug-in that keeps the pod out of the active queue."""
    token: int = 0
    rejected: float = 0.0
    started: float = 0.0
    """When the current attempt was started."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.timestamp = self.added

    def __repr__(self) -> str:
        return f"QueuedPod({self.info.key!r}, {self.place or 'removed'})"


class SchedulingQueue:
    """Pending pods of all profiles."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        nominator: Nominator,
        *,
        clock: Callable[[], float],
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
        unschedulable_timeout: float = UNSCHEDULABLE_TIMEOUT,
        pop_from_backoff: bool = True,
    ) -> None:
        self.nominator = nominator
        self._frameworks = frameworks
        self._sort_key = next(iter(frameworks.values())).sort_key
        self._clock = clock
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._timeout = unschedulable_timeout
        self._pop_from_backoff = pop_from_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._active: list[tuple[Any, int, int, QueuedPod]] = []
        self._backoff: list[tuple[float, int, int, QueuedPod]] = []
        self._unschedulable: dict[str, QueuedPod] = {}
        self._gated: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, list[_ChangeRecord]] = {}
        self._sequence = itertools.count()
        self._registered: dict[ClusterEvent, dict[str, set[str]]] = {}
        self._wake = asyncio.Event()

    # Contents

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pending pod, or `None`."""
        return self._pods.get(uid)

    def pods(self, place: Place | None = None) -> list[QueuedPod]:
        """Return the pending pods, of one part of the queue if given."""
        return [pod for pod in self._pods.values() if place is None or pod.place == place]

    def counts(self) -> dict[str, int]:
        """Return the number of pods by part of the queue."""
        counts = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
        for pod in self._pods.values():
            place = "backoff" if pod.place == "error-backoff" else pod.place
            if place in counts:
                counts[place] += 1
        return counts

    # Changes of pods

    def add(self, info: PodInfo) -> None:
        """Add a pod that was created."""
        known = self._pods.get(info.uid)
        if known is not None:
            self.update(info)
            return
        pod = QueuedPod(info, self._clock())
        self._pods[info.uid] = pod
        if info.nominated_node_name:
            self.nominator.set(info, info.nominated_node_name)
        self._to_active(pod)

    def update(self, info: PodInfo, event: ClusterEvent | None = None, old: Any = None) -> None:
        """Replace the object of a pod; `event` describes what has changed."""
        pod = self._pods.get(info.uid)
        if pod is None:
            self.add(info)
            return
        previous, pod.info = pod.info, info
        if info.nominated_node_name or previous.nominated_node_name:
            self.nominator.set(info, info.nominated_node_name)
        elif self.nominator.node_of(info.uid):
            # The nomination was made by this scheduler and is not visible in the API yet.
            self.nominator.set(info, self.nominator.node_of(info.uid))
        if pod.place == "gated":
            self._to_active(pod)
        elif pod.place == "active" and info.priority != previous.priority:
            self._push_active(pod)
        elif pod.place == "unschedulable" and event is not None:
            self._requeue(pod, event, old, info.pod)
        elif pod.place == "in-flight" and event is not None:
            # Pods that are being deleted are not in flight any longer.
            self._in_flight.get(info.uid, []).append((event, old, info.pod))

    def remove(self, uid: str) -> None:
        """Remove a pod that was deleted or bound."""
        self.nominator.remove(uid)
        pod = self._pods.pop(uid, None)
        self._in_flight.pop(uid, None)
        if pod is not None:
            pod.place = ""
            pod.token += 1
            self._unschedulable.pop(uid, None)
            self._gated.pop(uid, None)

    # Scheduling

    async def pop(self) -> QueuedPod:
        """Wait for the next pod to schedule. Call `done` or `add_unschedulable` after the attempt."""
        while True:
            pod = self.pop_now()
            if pod is not None:
                return pod
            self._wake.clear()
            delay = self._next_flush()
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def pop_now(self) -> QueuedPod | None:
        """Return the next pod to schedule, or `None` if no pod is ready."""
        self._flush()
        pod = self._pop_active() or (self._pop_backoff() if self._pop_from_backoff else None)
        if pod is None:
            return None
        pod.place = "in-flight"
        pod.attempts += 1
        self._in_flight[pod.info.uid] = []
        return pod

    def done(self, uid: str) -> None:
        """The attempt has ended and the pod does not return to the queue, unless it is added again."""
        self._in_flight.pop(uid, None)

    def add_unschedulable(self, pod: QueuedPod) -> None:
        """Return a pod after a failed attempt. Its plug-ins decide which events requeue it."""
        uid = pod.info.uid
        events = self._in_flight.pop(uid, [])
        if self._pods.get(uid) is not pod:
            return
        now = self._clock()
        pod.timestamp = pod.rejected = now
        if not pod.unschedulable_plugins and not pod.pending_plugins:
            pod.errors += 1
            self._to_backoff(pod, errors=True)
            return
        pod.errors = 0
        pod.failures += 1
        pod.place = "unschedulable"
        pod.token += 1
        self._unschedulable[uid] = pod
        for event, old, new in events:
            if pod.place == "unschedulable":
                self._requeue(pod, event, old, new)
        if pod.place == "unschedulable":
            self._wake.set()

    def move_all(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        *,
        only: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Requeue the rejected pods that an event can make schedulable."""
        for events in self._in_flight.values():
            events.append((event, old, new))
        if not self._unschedulable and not self._gated:
            return
        names = self._plugins_for(event)
        for pod in list(self._gated.values()):
            if pod.gate in names.get(pod.info.scheduler_name, ()) and self._is_relevant(
                pod, pod.gate, event, old, new
            ):
                self._to_active(pod)
        for pod in list(self._unschedulable.values()):
            registered = names.get(pod.info.scheduler_name)
            if "*" not in pod.unschedulable_plugins and (
                not registered
                or (
                    registered.isdisjoint(pod.unschedulable_plugins)
                    and registered.isdisjoint(pod.pending_plugins)
                )
            ):
                continue
            if only is None or only(pod.info):
                self._requeue(pod, event, old, new)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods to the active queue without backoff."""
        for info in pods:
            pod = self._pods.get(info.uid)
            if pod is not None and pod.place in ("unschedulable", "backoff", "error-backoff", "gated"):
                self._to_active(pod)

    # Parts of the queue

    def _plugins_for(self, event: ClusterEvent) -> dict[str, set[str]]:
        names = self._registered.get(event)
        if names is None:
            names = {name: framework.plugins_for(event) for name, framework in self._frameworks.items()}
            self._registered[event] = names
        return names

    def _requeue(self, pod: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> None:
        queue = False
        for name in (*pod.pending_plugins, *pod.unschedulable_plugins):
            if name == "*":
                queue = True
                continue
            if self._is_relevant(pod, name, event, old, new):
                if name in pod.pending_plugins:
                    self._to_active(pod)
                    return
                queue = True
        if queue:
            if self._backoff_expiry(pod) > self._clock():
                self._to_backoff(pod)
            else:
                self._to_active(pod)

    def _is_relevant(self, pod: QueuedPod, plugin: str, event: ClusterEvent, old: Any, new: Any) -> bool:
        """Whether an event can change the decision of a plug-in about a pod."""
        registered = self._frameworks[pod.info.scheduler_name].events.get(plugin, ())
        return any(
            each.includes(event) and (each.hint is None or each.hint(pod.info, old, new) is Hint.QUEUE)
            for each in registered
        )

    def _backoff_expiry(self, pod: QueuedPod, *, errors: bool = False) -> float:
        count = pod.errors if errors else pod.failures
        if count == 0:
            return 0.0
        return pod.rejected + min(self._max_backoff, self._initial_backoff * 2.0 ** (count - 1))

    def _to_active(self, pod: QueuedPod) -> None:
        uid = pod.info.uid
        self._unschedulable.pop(uid, None)
        self._gated.pop(uid, None)
        framework = self._frameworks[pod.info.scheduler_name]
        rejection = framework.pre_enqueue(pod.info)
        if rejection is not None:
            pod.place = "gated"
            pod.gate = rejection.plugin
            pod.token += 1
            self._gated[uid] = pod
            return
        self._push_active(pod)

    def _push_active(self, pod: QueuedPod) -> None:
        pod.place = "active"
        pod.token += 1
        heapq.heappush(self._active, (self._sort_key(pod), next(self._sequence), pod.token, pod))
        self._wake.set()

    def _to_backoff(self, pod: QueuedPod, *, errors: bool = False) -> None:
        self._unschedulable.pop(pod.info.uid, None)
        pod.place = "error-backoff" if errors else "backoff"
        pod.token += 1
        pod.expires = self._backoff_expiry(pod, errors=errors)
        heapq.heappush(self._backoff, (pod.expires, next(self._sequence), pod.token, pod))
        self._wake.set()

    def _pop_active(self) -> QueuedPod | None:
        while self._active:
            _, _, token, pod = heapq.heappop(self._active)
            if pod.token == token and pod.place == "active":
                return pod
        return None

    def _pop_backoff(self) -> QueuedPod | None:
        """Return the pod whose backoff ends next, unless it waits because of an error."""
        waiting = []
        found = None
        while self._backoff and found is None:
            entry = heapq.heappop(self._backoff)
            if entry[2] != entry[3].token:
                continue
            if entry[3].place == "backoff":
                found = entry[3]
            else:
                waiting.append(entry)
        for entry in waiting:
            heapq.heappush(self._backoff, entry)
        if found is not None and self._frameworks[found.info.scheduler_name].pre_enqueue(found.info):
            self._to_active(found)
            return None
        return found

    def _flush(self) -> None:
        """Move pods whose backoff has ended, and pods that were unschedulable for too long."""
        now = self._clock()
        while self._backoff and (
            self._backoff[0][0] <= now or self._backoff[0][2] != self._backoff[0][3].token
        ):
            _, _, token, pod = heapq.heappop(self._backoff)
            if pod.token == token:
                self._to_active(pod)
        # Pods are in the order in which they were rejected.
        for pod in list(itertools.takewhile(self._has_expired, self._unschedulable.values())):
            self._to_active(pod)

    def _has_expired(self, pod: QueuedPod) -> bool:
        return self._clock() >= pod.rejected + self._timeout  # as `_next_flush` computes it

    def _next_flush(self) -> float | None:
        """Seconds until `_flush` has something to do; `None` if only an event can change the queue."""
        times = []
        if self._backoff:
            times.append(self._backoff[0][0])
        if self._unschedulable:
            times.append(next(iter(self._unschedulable.values())).rejected + self._timeout)
        return max(0.0, min(times) - self._clock()) if times else None
