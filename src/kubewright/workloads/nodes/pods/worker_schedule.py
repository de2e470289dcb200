"""When the pod workers of simulated nodes are advanced: soon, or at a time of the event loop.

A worker is ready after `wake`, or when its time (`worker.due`) has come. Ready workers are advanced in
batches, so that a cluster with thousands of pods does not block the event loop. Times are in a heap with one
timer for the earliest; an entry whose worker has another time by now is ignored.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.objects import LoopClock

if TYPE_CHECKING:
    from .pod_worker import PodWorker

_BATCH: Final = 256
"""Workers that are advanced before other callbacks of the loop run."""


class WorkerSchedule:
    """Calls `advance` with workers and the time, between `start` and `stop`."""

    def __init__(self, clock: LoopClock, advance: Callable[[PodWorker, float], None]) -> None:
        self._clock = clock
        self._advance = advance
        self._running = False
        self._ready: dict[PodWorker, None] = {}
        self._scheduled = False
        self._heap: list[tuple[float, int, PodWorker]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    def start(self) -> None:
        """Advance workers that are woken from now on."""
        self._running = True

    def stop(self) -> None:
        """Advance no worker any more."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def wake(self, worker: PodWorker) -> None:
        """Advance a worker soon."""
        self._ready[worker] = None
        if not self._scheduled and self._running:
            self._schedule()

    def set_due(self, worker: PodWorker, due: float | None) -> None:
        """Advance a worker at a time, instead of the one set before; not at all if it is `None`."""
        worker.due = due
        if due is not None:
            heapq.heappush(self._heap, (due, next(self._numbers), worker))

    def is_idle_until(self, time: float) -> bool:
        """Return whether no worker is ready, or due until a time."""
        return not self._ready and not (self._heap and self._heap[0][0] <= time)

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._advance_ready)

    def _advance_ready(self) -> None:
        self._scheduled = False
        if not self._running:
            return
        now = self._clock.time()
        while self._heap and self._heap[0][0] <= now:
            due, _, worker = heapq.heappop(self._heap)
            if worker.due == due:
                self._ready[worker] = None
        for _ in range(min(_BATCH, len(self._ready))):
            worker = next(iter(self._ready))
            del self._ready[worker]
            self._advance(worker, now)
        if self._ready:
            self._schedule()
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer to the earliest time."""
        if not self._heap or self._scheduled:
            return
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due and not self._timer.cancelled():
                return
            self._timer.cancel()
        # uvloop returns a handle without `when` for a timer that is due.
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_at(due, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._advance_ready()
