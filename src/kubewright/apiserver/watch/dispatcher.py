"""One watch on storage for all resources.

The `EventDispatcher` reads everything under the server's prefix through a single storage watch and adds each
event to the `WatchCache` of its resource; each cache also notifies the `EventListener`s, which see all
resources. One `WatchTimer` serves the timeouts and bookmarks of all watchers.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kubewright.api.errors import too_large_resource_version
from kubewright.storage.contract import Compacted, Storage, StorageError

if TYPE_CHECKING:
    from .cache import WatchCache, WatchCacheEvent, Watcher

logger = logging.getLogger("kubewright.apiserver")

_HANDING_ON = 5
"""Turns of the event loop within which the feed takes in what is queued for it."""


class WatchTimer:
    """One timer for all watchers, with quarter-second precision."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._slots: dict[int, dict[Watcher, None]] = {}
        self._order: list[int] = []
        self._handle: asyncio.TimerHandle | None = None
        self._next = 0

    def schedule(self, watcher: Watcher, when: float) -> None:
        """Call `watcher.due` at `when`."""
        if when <= 0:
            return
        slot = watcher.slot = int(when * 4) + 1
        slots = self._slots
        if slot in slots:
            slots[slot][watcher] = None
            return
        slots[slot] = {watcher: None}
        heapq.heappush(self._order, slot)
        self._arm()

    def forget(self, watcher: Watcher) -> None:
        """Let go of a watcher that has ended: its time may be an hour away, and it holds a window."""
        self._slots.get(watcher.slot, {}).pop(watcher, None)

    def _arm(self) -> None:
        if not self._order:
            return
        first = self._order[0]
        if self._handle is not None:
            if self._next <= first:
                return
            self._handle.cancel()
        self._next = first
        delay = max(first / 4 - self.clock(), 0.0)
        self._handle = asyncio.get_running_loop().call_later(delay, self.tick)

    def tick(self) -> None:
        """Serve everything that is due; a test with its own clock calls it."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        now = self.clock()
        while self._order and self._order[0] <= now * 4 + 1:
            for watcher in self._slots.pop(heapq.heappop(self._order)):
                when = watcher.due(now)
                if when:
                    self.schedule(watcher, max(when, now + 0.25))
        if self._handle is None:
            self._arm()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class EventListener(Protocol):
    """A part of the server that follows every resource, also those that are yet to come."""

    def on_resource_added(self, cache: WatchCache) -> None:
        """A resource is served from now on."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """A resource is no longer served."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """An object was written or removed."""

    def on_reset(self) -> None:
        """Changes may have been missed: read everything anew."""


class EventDispatcher:
    """Follows storage and knows how far it has come (`revision`)."""

    def __init__(self, storage: Storage, prefix: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.storage = storage
        self.prefix = prefix
        self.clock = clock
        self.revision = 0
        self.running = False
        self.timer = WatchTimer(clock)
        self.listeners: list[EventListener] = []
        self._caches: dict[str, tuple[WatchCache, ...]] = {}
        """By the beginning of their keys; resources of two groups may share one (events)."""
        self._task: asyncio.Task[None] | None = None
        self._watch: Any = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def register(self, cache: WatchCache) -> None:
        """Hand events under the cache's prefix to it."""
        key = cache.prefix[len(self.prefix) : -1]
        self._caches[key] = (*self._caches.get(key, ()), cache)
        if self.running:
            cache.reset(self.revision)
        for listener in self.listeners:
            listener.on_resource_added(cache)

    def unregister(self, cache: WatchCache) -> None:
        """Stop doing so."""
        key = cache.prefix[len(self.prefix) : -1]
        caches = self._caches.get(key, ())
        if cache in caches:
            self._caches[key] = tuple(each for each in caches if each is not cache)
            if not self._caches[key]:
                del self._caches[key]
            for listener in self.listeners:
                listener.on_resource_removed(cache)

    async def start(self) -> None:
        """Begin to follow."""
        self.revision = await self.storage.revision()
        self.running = True
        for cache in self._all():
            cache.reset(self.revision)
        watch = self._watch = self.storage.watch(self.prefix, self.revision)
        self._task = asyncio.create_task(self._follow(watch))

    async def stop(self) -> None:
        """Stop following."""
        self.running = False
        self.timer.stop()
        for cache in self._all():
            cache.close_watchers()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self, watch: Any) -> None:
        delay = 0.1
        while self.running:
            try:
                async for batch in watch:
                    delay = 0.1
                    for event in batch:
                        for cache in self._caches_for(event.key):
                            cache.add_event(event)
                    self.revision = batch[-1].revision
                    if self._waiters:
                        self._wake()
            except (Compacted, StorageError) as error:
                logger.warning("lost the watch on storage, starting again: %s", error)
            finally:
                watch.close()
            await asyncio.sleep(delay)
            delay = min(delay * 2, 5.0)
            try:
                self.revision = await self.storage.revision()
            except StorageError:
                continue
            for cache in self._all():
                cache.close_watchers()
                cache.reset(self.revision)
            for listener in self.listeners:
                listener.on_reset()
            watch = self._watch = self.storage.watch(self.prefix, self.revision)

    def _all(self) -> list[WatchCache]:
        return [cache for caches in self._caches.values() for cache in caches]

    def _caches_for(self, key: str) -> tuple[WatchCache, ...]:
        first, _, rest = key[len(self.prefix) :].partition("/")
        return self._caches.get(first) or self._caches.get(f"{first}/{rest.partition('/')[0]}", ())

    def _wake(self) -> None:
        waiting = self._waiters
        self._waiters = []
        for wanted, future in waiting:
            if wanted > self.revision:
                self._waiters.append((wanted, future))
            elif not future.done():
                future.set_result(None)

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until everything up to `revision` has been handed on."""
        if revision <= self.revision or self._watch is None:
            return
        # Revisions may have gone to keys that are not followed, so the last one seen need never reach it.
        while await self._watch.progress() < revision and self.running:  # noqa: ASYNC110 - storage has no signal
            await asyncio.sleep(0.01)
        for _ in range(_HANDING_ON):
            await asyncio.sleep(0)

    async def wait_for_storage_revision(self, revision: int, timeout: float) -> None:
        """Wait until storage has reached `revision`; raises `Timeout` if it does not within `timeout`
        seconds."""
        if revision <= self.revision or revision <= await self.storage.revision():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, future))
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            error = too_large_resource_version(revision, self.revision)
            raise error from None
        finally:
            self._waiters = [entry for entry in self._waiters if entry[1] is not future]
