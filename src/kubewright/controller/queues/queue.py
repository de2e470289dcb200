"""Work queue with deduplication, priorities and delays; a key is processed by one worker at a time.

A key is *waiting* (until a point in time), *ready*, or *locked* (being processed by a worker). Adding a key
that is already queued merges: it keeps the highest priority and the earliest time, and moves to the end of
its priority level if its priority rose. A key that is added while it is locked becomes ready when the worker
calls `done`, so no change is lost. Keys of equal priority are returned in the order in which they became
ready.

Priorities age, so that a key with a low priority is never starved: one second of waiting counts as much as
one point of priority. A key with priority -100 is returned before keys with priority 0 that became ready more
than 100 seconds after it. Because all ready keys age at the same rate, their order never changes.

A key is queued with its causes; those of merged keys are merged.

The clock is the event loop's, so tests can control it.
"""

from __future__ import annotations

import asyncio
import heapq
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from kubewright.controller.causes import Causes, merge_causes

from .queue_metrics import QueueMetrics
from .rate_limiters import ExponentialFailureRateLimiter, RateLimiter

K = TypeVar("K", bound=Hashable)

AGING_SECONDS = 1.0
"""Seconds of waiting that count as much as one point of priority."""
LOW_PRIORITY = -100
"""Priority of objects from the initial list and from resyncs."""


class QueueShutDown(Exception):
    """The queue has been shut down and returns no more keys."""


class QueueItem(NamedTuple, Generic[K]):
    """A key returned by `WorkQueue.get`, with its priority and its causes."""

    key: K
    priority: int
    causes: Causes = ()
    waited: float = 0.0
    """Seconds from when the key was ready."""


class _Entry(Generic[K]):
    """A queued key. `sequence` changes with every move, which makes older heap entries stale."""

    __slots__ = ("added_at", "causes", "key", "priority", "rank", "ready_at", "sequence")

    def __init__(
        self, key: K, priority: int, ready_at: float, sequence: int, added_at: float, causes: Causes
    ) -> None:
        self.key = key
        self.priority = priority
        self.ready_at = ready_at
        """Loop time at which it becomes ready; 0 if it is ready now."""
        self.sequence = sequence
        self.added_at = added_at
        self.causes = causes
        self.rank = added_at - priority * AGING_SECONDS
        """Position among the ready keys: the time at which it became ready, corrected by its priority."""


class WorkQueue(Generic[K]):
    """Queue of keys for any number of workers on one event loop."""

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter[K] | None = None,
        metrics: QueueMetrics | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.name = name
        self.rate_limiter: RateLimiter[K] = (
            rate_limiter if rate_limiter is not None else ExponentialFailureRateLimiter()
        )
        self.metrics = metrics if metrics is not None else QueueMetrics()
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._now: Callable[[], float] = self._loop.time
        self._items: dict[K, _Entry[K]] = {}
        self._ready: list[tuple[float, int, _Entry[K]]] = []
        self._waiting: list[tuple[float, int, _Entry[K]]] = []
        self._locked: dict[K, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._sequence = 0
        self._waiting_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._closed = False
        """No more keys are accepted."""
        self._ended = False
        """No more keys are returned."""
        self._idle: asyncio.Future[None] | None = None
        self._idle_waiter: asyncio.Future[None] | None = None
        self._depths: dict[int, int] = {}
        """Ready keys by priority."""
        # Metrics of one name can have several queues, in one process; the last one is reported.
        self.metrics.depths = self._depths
        self.metrics.running = _ages_of(weakref.ref(self))

    def __len__(self) -> int:
        """Number of ready keys, without those that a worker is processing."""
        return sum(self._depths.values())

    @property
    def is_idle(self) -> bool:
        """Whether no key is ready or locked; keys that are waiting for a delay are not counted."""
        return not self._locked and len(self._items) == self._waiting_count

    async def wait_until_idle(self) -> None:
        """Wait until `is_idle`."""
        while not self.is_idle:
            if self._idle_waiter is None:
                self._idle_waiter = self._loop.create_future()
            await asyncio.shield(self._idle_waiter)

    def _report_idle(self) -> None:
        waiter = self._idle_waiter
        if waiter is not None and self.is_idle:
            self._idle_waiter = None
            if not waiter.done():
                waiter.set_result(None)

    @property
    def waiting(self) -> int:
        """Number of keys that are waiting for their delay to end."""
        return self._waiting_count

    @property
    def longest_delay(self) -> float:
        """Seconds until all keys that wait for their delay are ready."""
        last = max((each.ready_at for each in self._items.values() if each.ready_at), default=0.0)
        return max(0.0, last - self._now()) if last else 0.0

    @property
    def locked(self) -> dict[K, float]:
        """Keys being processed, with the loop time at which processing started."""
        return dict(self._locked)

    def delay_of(self, key: K) -> float | None:
        """Seconds until a queued key becomes ready; `None` if it is not queued."""
        item = self._items.get(key)
        if item is None:
            return None
        return max(0.0, item.ready_at - self._now()) if item.ready_at else 0.0

    def __contains__(self, key: K) -> bool:
        """Whether the key is queued: waiting, ready, or added while locked."""
        return key in self._items

    def add(
        self,
        key: K,
        *,
        after: float = 0.0,
        priority: int = 0,
        rate_limited: bool = False,
        causes: Causes = (),
    ) -> None:
        """Queue a key, now or `after` seconds from now.

        With `rate_limited` the delay is that of the rate limiter, or `after` if that is given and shorter.
        `causes`: why it is queued; added to those of the key if it is queued already.
        """
        if self._closed:
            return
        if rate_limited:
            delay = self.rate_limiter.when(key)
            after = min(after, delay) if after > 0 else delay
        now = self._now()
        if after > 0:
            self.metrics.retries += 1
            ready_at = now + after
        else:
            ready_at = 0.0
        item = self._items.get(key)
        if item is None:
            self._sequence += 1
            self._items[key] = item = _Entry(key, priority, ready_at, self._sequence, now, causes)
            self.metrics.adds += 1
            self._place(item, key not in self._locked)
            return
        if causes:
            item.causes = merge_causes(item.causes, causes)
        sooner = item.ready_at and ready_at < item.ready_at
        if not sooner and priority <= item.priority:
            return
        unlocked = key not in self._locked
        if item.ready_at:
            self._waiting_count -= 1
        elif unlocked:
            self._depths[item.priority] -= 1
        if sooner:
            item.ready_at = ready_at
            item.added_at = now
        item.priority = max(item.priority, priority)
        rank = now - item.priority * AGING_SECONDS
        item.rank = rank if sooner else min(item.rank, rank)
        self._sequence += 1
        item.sequence = self._sequence
        self._place(item, unlocked)

    async def get(self) -> QueueItem[K]:
        """Wait for the next key and lock it. Raises `QueueShutDown` when no more keys will be returned."""
        while True:
            item = self._pop()
            if item is not None:
                return self._lock(item)
            if self._ended or (self._closed and not self._items):
                raise QueueShutDown(self.name)
            getter: asyncio.Future[None] = self._loop.create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                # This getter may already have been woken: wake another one instead, so that no key is left.
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise

    def done(self, key: K) -> None:
        """Unlock a key; if it was added while locked, it becomes ready again."""
        started = self._locked.pop(key)
        self.metrics.worked.observe(self._now() - started)
        item = self._items.get(key)
        if item is not None and not item.ready_at:
            self._make_ready(item)
        if self._closed:
            self._check_idle()
        if self._idle_waiter is not None:
            self._report_idle()

    def forget(self, key: K) -> None:
        """Reset the failure count of a key, so that its next retry has the shortest delay."""
        self.rate_limiter.forget(key)

    @property
    def shutting_down(self) -> bool:
        """Whether the queue accepts no more keys; with `drain`, workers may still get some."""
        return self._closed

    def shut_down(self, *, drain: bool = False) -> None:
        """Accept no more keys, and drop the queued ones; every `get` raises `QueueShutDown`.

        With `drain`, `get` first returns the keys that are ready, and those that were added while they were
        locked; only keys that are waiting for a delay are dropped. Does not wait, see the method `drain`. A
        later call without `drain` drops the rest.
        """
        self._close()
        if drain:
            self._wake_all()
            return
        self._ended = True
        self._items.clear()
        self._ready.clear()
        self._depths.clear()
        self._wake_all()
        self._check_idle()
        self._report_idle()

    async def drain(self) -> None:
        """Call `shut_down(drain=True)` and return when workers have processed all keys."""
        self.shut_down(drain=True)
        if self._items or self._locked:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def _close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for item in [item for item in self._items.values() if item.ready_at]:
            del self._items[item.key]
        self._waiting.clear()
        self._waiting_count = 0

    def _check_idle(self) -> None:
        if self._items or self._locked:
            return
        self._wake_all()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _place(self, item: _Entry[K], unlocked: bool) -> None:
        """Queue an item by time and priority; a locked one is queued when it is done."""
        if item.ready_at:
            self._wait(item)
        elif unlocked:
            self._make_ready(item)

    def _make_ready(self, item: _Entry[K]) -> None:
        priority = item.priority
        heapq.heappush(self._ready, (item.rank, item.sequence, item))
        depths = self._depths
        depths[priority] = depths.get(priority, 0) + 1
        if len(self._ready) > 2 * len(self._items) + 64:
            self._ready = [entry for entry in self._ready if self._is_current(entry[2], entry[1])]
            heapq.heapify(self._ready)
        if self._getters:
            self._wake()

    def _wait(self, item: _Entry[K]) -> None:
        self._waiting_count += 1
        heapq.heappush(self._waiting, (item.ready_at, item.sequence, item))
        if len(self._waiting) > 2 * self._waiting_count + 64:
            # A key that is added again long before its time leaves a stale entry each time.
            self._waiting = [entry for entry in self._waiting if self._is_current(entry[2], entry[1])]
            heapq.heapify(self._waiting)
        if self._waiting[0][2] is item:
            self._schedule()

    def _is_current(self, item: _Entry[K], sequence: int) -> bool:
        return item.sequence == sequence and self._items.get(item.key) is item

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer_due = self._waiting[0][0]
            self._timer = self._loop.call_at(self._timer_due, self._release)

    def _release(self) -> None:
        """Make keys ready whose delay has ended, in the order of their times."""
        assert self._timer is not None
        # A loop may call a timer a clock tick early; handles of uvloop may not have a time.
        now = max(self._now(), self._timer_due)
        self._timer = None
        waiting = self._waiting
        while waiting:
            ready_at, sequence, item = waiting[0]
            if not self._is_current(item, sequence):
                heapq.heappop(waiting)
            elif ready_at <= now:
                heapq.heappop(waiting)
                self._waiting_count -= 1
                item.ready_at = 0.0
                item.added_at = now
                item.rank = ready_at - item.priority * AGING_SECONDS
                self._sequence += 1
                item.sequence = self._sequence
                self._place(item, item.key not in self._locked)
            else:
                break
        self._schedule()

    def _pop(self) -> _Entry[K] | None:
        ready = self._ready
        while ready:
            _, sequence, item = heapq.heappop(ready)
            if item.sequence == sequence and self._items.get(item.key) is item:
                return item
        return None

    def _lock(self, item: _Entry[K]) -> QueueItem[K]:
        key, priority = item.key, item.priority
        del self._items[key]
        now = self._now()
        self._locked[key] = now
        metrics = self.metrics
        self._depths[priority] -= 1
        waited = now - item.added_at
        metrics.waited.observe(waited)
        return QueueItem(key, priority, item.causes, waited)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._getters:
            self._wake()


def _ages_of(reference: weakref.ref[WorkQueue[K]]) -> Callable[[], list[float]]:
    """Return a function for the ages of the locked keys that does not keep the queue alive."""

    def ages() -> list[float]:
        queue = reference()
        if queue is None:
            return []
        now = queue._now()
        return [now - started for started in list(queue._locked.values())]

    return ages
