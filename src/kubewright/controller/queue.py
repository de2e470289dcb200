"""The work queue: each key once, the most urgent first, never two workers on one key.

A key is *waiting* (it has a time before which nobody may take it), *ready*, or *locked* (a worker has it).
Adds merge: a key that is already queued keeps its highest priority and its earliest time, and joins the end
of its level if its priority rose. A key added while it is locked becomes available when the worker says
`done`, so no change is missed and no two workers ever hold the same key.

Time is the event loop's: a test that owns the loop owns the queue.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from .queue_metrics import NO_METRICS, QueueMetrics
from .rate_limiters import ExponentialLimiter, RateLimiter

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For what was there before: the initial list and resyncs."""


class QueueShutDown(Exception):
    """The queue has been shut down and is empty."""


class Taken(NamedTuple, Generic[K]):
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
        """When it may be taken; 0 when it is ready."""
        self.sequence = sequence
        self.added_at = added_at


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers on one event loop."""

    def __init__(
        self,
        name: str = "",
        *,
        limiter: RateLimiter[K] | None = None,
        metrics: QueueMetrics = NO_METRICS,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.name = name
        self.limiter: RateLimiter[K] = limiter if limiter is not None else ExponentialLimiter()
        self._metrics = metrics
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._now: Callable[[], float] = self._loop.time
        self._items: dict[K, _Item[K]] = {}
        self._ready: list[tuple[int, int, _Item[K]]] = []
        self._waiting: list[tuple[float, int, _Item[K]]] = []
        self._locked: dict[K, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._idle: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """How many keys are ready, those that a worker still holds not counted."""
        return sum(1 for item in self._items.values() if not item.ready_at and item.key not in self._locked)

    @property
    def waiting(self) -> int:
        """How many keys wait for their time."""
        return sum(1 for item in self._items.values() if item.ready_at)

    @property
    def locked(self) -> dict[K, float]:
        """The keys that workers hold, and since when (loop time)."""
        return dict(self._locked)

    def add(
        self, key: K, *, after: float = 0.0, priority: int | None = None, rate_limited: bool = False
    ) -> None:
        """Queue a key, now or `after` so many seconds; `rate_limited` takes the limiter's delay if shorter.

        Without a `priority` a new key has priority 0 and a queued one keeps its own.
        """
        if self._stopping:
            return
        if rate_limited:
            delay = self.limiter.when(key)
            after = min(after, delay) if after > 0 else delay
        if after > 0:
            self._metrics.retries()
        now = self._now()
        ready_at = now + after if after > 0 else 0.0
        item = self._items.get(key)
        if item is None:
            self._sequence += 1
            item = _Item(key, priority or 0, ready_at, self._sequence, now)
            self._items[key] = item
            self._metrics.add()
            if ready_at:
                self._wait(item)
            elif key not in self._locked:
                self._make_ready(item)
            return
        risen = priority is not None and priority > item.priority
        if risen:
            assert priority is not None
            if not item.ready_at and key not in self._locked:
                self._metrics.depth(item.priority, -1)
            item.priority = priority
        if item.ready_at and ready_at < item.ready_at:
            item.ready_at = ready_at
            item.added_at = now
            self._renumber(item)
            if ready_at:
                self._wait(item)
            elif key not in self._locked:
                self._make_ready(item)
        elif risen:
            self._renumber(item)
            if item.ready_at:
                self._wait(item)
            elif key not in self._locked:
                self._make_ready(item)

    async def get(self) -> Taken[K]:
        """Take the next key, waiting for one. Raises `QueueShutDown` when there will be none."""
        while True:
            item = self._pop()
            if item is not None:
                return self._take(item)
            if self._stopping:
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
            finally:
                if not getter.done():
                    self._getters.remove(getter)

    def done(self, key: K) -> None:
        """Give a key back; if it was added meanwhile it is available again."""
        started = self._locked.pop(key)
        self._metrics.done(self._now() - started)
        item = self._items.get(key)
        if item is not None and not item.ready_at:
            self._make_ready(item)
        if self._idle is not None and not self._locked and not self._idle.done():
            self._idle.set_result(None)

    def forget(self, key: K) -> None:
        """The key is well again: its next failure starts with the shortest delay."""
        self.limiter.forget(key)

    def shut_down(self) -> None:
        """Take no more keys; workers get what is ready and then `QueueShutDown`. What waits is dropped."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for item in [item for item in self._items.values() if item.ready_at]:
            del self._items[item.key]
        self._waiting.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()

    async def drain(self) -> None:
        """Shut down and wait until no worker holds a key."""
        self.shut_down()
        if self._locked:
            self._idle = self._loop.create_future()
            await self._idle

    def _renumber(self, item: _Item[K]) -> None:
        """Put an item at the end of its level; its older heap entries become stale."""
        self._sequence += 1
        item.sequence = self._sequence

    def _make_ready(self, item: _Item[K]) -> None:
        heapq.heappush(self._ready, (-item.priority, item.sequence, item))
        self._metrics.depth(item.priority, 1)
        self._wake()

    def _wait(self, item: _Item[K]) -> None:
        heapq.heappush(self._waiting, (item.ready_at, item.sequence, item))
        if self._waiting[0][2] is item:
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0][0], self._release)

    def _release(self) -> None:
        """Make ready what has waited long enough, in the order in which its time came."""
        now = self._now()
        waiting = self._waiting
        while waiting:
            ready_at, sequence, item = waiting[0]
            if item.sequence != sequence or self._items.get(item.key) is not item or not item.ready_at:
                heapq.heappop(waiting)
            elif ready_at <= now:
                heapq.heappop(waiting)
                item.ready_at = 0.0
                item.added_at = now
                self._renumber(item)
                if item.key not in self._locked:
                    self._make_ready(item)
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

    def _take(self, item: _Item[K]) -> Taken[K]:
        del self._items[item.key]
        now = self._now()
        self._locked[item.key] = now
        self._metrics.depth(item.priority, -1)
        self._metrics.get(now - item.added_at)
        return Taken(item.key, item.priority)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
