"""The work queue: each key once, the most urgent first, never two workers on one key.

A key is *waiting* (it has a time before which nobody may take it), *ready*, or *locked* (a worker has it).
Adds merge: a key that is already queued keeps its highest priority and its earliest time, and joins the end
of its level if its priority rose. A key added while it is locked becomes available when the worker says
`done`, so no change is missed and no two workers ever hold the same key. Keys of one priority are taken in
the order in which they became ready.

Time is the event loop's: a test that owns the loop owns the queue.
"""

from __future__ import annotations

import asyncio
import heapq
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from .queue_metrics import QueueMetrics
from .rate_limiters import ExponentialFailureRateLimiter, RateLimiter

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For what was there before: the initial list and resyncs."""


class QueueShutDown(Exception):
    """The queue has been shut down and there is nothing more to take."""


class QueueItem(NamedTuple, Generic[K]):
    """A key that a worker holds, and the priority it had."""

    key: K
    priority: int


class _Item(Generic[K]):
    """A queued key. `sequence` changes with every move, which makes older heap entries stale."""

    __slots__ = ("added_at", "key", "priority", "ready_at", "sequence")

    def __init__(self, key: K, priority: int, ready_at: float, sequence: int, added_at: float) -> None:
        self.key = key
        self.priority = priority
        self.ready_at = ready_at
        """When it may be taken; 0 when it may be taken now."""
        self.sequence = sequence
        self.added_at = added_at


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers on one event loop."""

    def __init__(
        self,
        name: str = "",
        *,
        limiter: RateLimiter[K] | None = None,
        metrics: QueueMetrics | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.name = name
        self.limiter: RateLimiter[K] = limiter if limiter is not None else ExponentialFailureRateLimiter()
        self.metrics = metrics if metrics is not None else QueueMetrics()
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._now: Callable[[], float] = self._loop.time
        self._items: dict[K, _Item[K]] = {}
        self._ready: list[tuple[int, int, _Item[K]]] = []
        self._waiting: list[tuple[float, int, _Item[K]]] = []
        self._locked: dict[K, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._sequence = 0
        self._waiting_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        """No key is added any more."""
        self._ended = False
        """No key is handed out any more."""
        self._idle: asyncio.Future[None] | None = None
        self._quiet: asyncio.Future[None] | None = None
        self.metrics.running = _ages_of(weakref.ref(self))

    def __len__(self) -> int:
        """How many keys could be taken now; those that a worker still holds are not counted."""
        return sum(self.metrics.depths.values())

    @property
    def is_idle(self) -> bool:
        """Whether no key is ready and no worker holds one; keys that wait for their time do not count."""
        return not self._locked and len(self._items) == self._waiting_count

    async def wait_until_idle(self) -> None:
        """Wait until `is_idle`."""
        while not self.is_idle:
            if self._quiet is None:
                self._quiet = self._loop.create_future()
            await asyncio.shield(self._quiet)

    def _report_idle(self) -> None:
        quiet = self._quiet
        if quiet is not None and self.is_idle:
            self._quiet = None
            if not quiet.done():
                quiet.set_result(None)

    @property
    def waiting(self) -> int:
        """How many keys wait for their time."""
        return self._waiting_count

    @property
    def locked(self) -> dict[K, float]:
        """The keys that workers hold, and since when (loop time)."""
        return dict(self._locked)

    def __contains__(self, key: K) -> bool:
        """Whether the key is queued: waiting, ready, or to be ready when its worker is done."""
        return key in self._items

    def add(self, key: K, *, after: float = 0.0, priority: int = 0, rate_limited: bool = False) -> None:
        """Queue a key, now or `after` so many seconds.

        `rate_limited` takes the delay that the limiter says, or `after` if that is given and shorter.
        """
        if self._closed:
            return
        if rate_limited:
            delay = self.limiter.when(key)
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
            self._items[key] = item = _Item(key, priority, ready_at, self._sequence, now)
            self.metrics.adds += 1
            self._place(item, key not in self._locked)
            return
        sooner = item.ready_at and ready_at < item.ready_at
        if not sooner and priority <= item.priority:
            return
        unlocked = key not in self._locked
        if item.ready_at:
            self._waiting_count -= 1
        elif unlocked:
            self.metrics.depths[item.priority] -= 1
        if sooner:
            item.ready_at = ready_at
            item.added_at = now
        item.priority = max(item.priority, priority)
        self._sequence += 1
        item.sequence = self._sequence
        self._place(item, unlocked)

    async def get(self) -> QueueItem[K]:
        """Take the next key, waiting for one. Raises `QueueShutDown` when there will be none."""
        while True:
            item = self._pop()
            if item is not None:
                return self._take(item)
            if self._ended or (self._closed and not self._items):
                raise QueueShutDown(self.name)
            getter: asyncio.Future[None] = self._loop.create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                # The wake-up may have been meant for this one: pass it on rather than lose it.
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise

    def done(self, key: K) -> None:
        """Give a key back; if it was added meanwhile it is available again."""
        started = self._locked.pop(key)
        self.metrics.worked.observe(self._now() - started)
        item = self._items.get(key)
        if item is not None and not item.ready_at:
            self._make_ready(item)
        if self._closed:
            self._check_idle()
        if self._quiet is not None:
            self._report_idle()

    def forget(self, key: K) -> None:
        """The key is well again: its next failure starts with the shortest delay."""
        self.limiter.forget(key)

    def shut_down(self) -> None:
        """Hand out no more keys: every `get` raises `QueueShutDown`. What is queued is dropped."""
        self._close()
        self._ended = True
        self._items.clear()
        self._ready.clear()
        self.metrics.depths.clear()
        self._wake_all()
        self._check_idle()
        self._report_idle()

    async def drain(self) -> None:
        """Take no more keys, have workers finish what is ready, and return when the last is done.

        What waits for a later time is dropped.
        """
        self._close()
        self._wake_all()
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

    def _place(self, item: _Item[K], unlocked: bool) -> None:
        """Put an item where its time and priority say; one that is locked is placed when it is done."""
        if item.ready_at:
            self._wait(item)
        elif unlocked:
            self._make_ready(item)

    def _make_ready(self, item: _Item[K]) -> None:
        priority = item.priority
        heapq.heappush(self._ready, (-priority, item.sequence, item))
        depths = self.metrics.depths
        depths[priority] = depths.get(priority, 0) + 1
        if len(self._ready) > 2 * len(self._items) + 64:
            self._ready = [entry for entry in self._ready if self._is_current(entry[2], entry[1])]
            heapq.heapify(self._ready)
        if self._getters:
            self._wake()

    def _wait(self, item: _Item[K]) -> None:
        self._waiting_count += 1
        heapq.heappush(self._waiting, (item.ready_at, item.sequence, item))
        if len(self._waiting) > 2 * self._waiting_count + 64:
            # A key that is tried again long before its time leaves an entry behind each time.
            self._waiting = [entry for entry in self._waiting if self._is_current(entry[2], entry[1])]
            heapq.heapify(self._waiting)
        if self._waiting[0][2] is item:
            self._schedule()

    def _is_current(self, item: _Item[K], sequence: int) -> bool:
        return item.sequence == sequence and self._items.get(item.key) is item

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0][0], self._release)

    def _release(self) -> None:
        """Make ready what has waited long enough, in the order in which its time came."""
        assert self._timer is not None
        # A loop may call a timer a clock tick early.
        now = max(self._now(), self._timer.when())
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
                self._sequence += 1
                item.sequence = self._sequence
                self._place(item, item.key not in self._locked)
            else:
                break
        self._schedule()

    def _pop(self) -> _Item[K] | None:
        ready = self._ready
        while ready:
            _, sequence, item = heapq.heappop(ready)
            if item.sequence == sequence and self._items.get(item.key) is item:
                return item
        return None

    def _take(self, item: _Item[K]) -> QueueItem[K]:
        key, priority = item.key, item.priority
        del self._items[key]
        now = self._now()
        self._locked[key] = now
        metrics = self.metrics
        metrics.depths[priority] -= 1
        metrics.waited.observe(now - item.added_at)
        return QueueItem(key, priority)

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
    """The ages of what a queue's workers hold, without keeping the queue alive."""

    def ages() -> list[float]:
        queue = reference()
        if queue is None:
            return []
        now = queue._now()
        return [now - started for started in list(queue._locked.values())]

    return ages
