"""One watch on storage for all resources.

The `EventDispatcher` reads everything under the server's prefix through a single storage watch and adds each
event to the `WatchCache` of its resource; each cache also notifies the `EventListener`s, which see all
resources. One `WatchTimer` serves the timeouts and bookmarks of all watchers.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kubewright.api.errors import too_large_resource_version
from kubewright.api.values.times import monotonic_time
from kubewright.background import run_forever
from kubewright.storage.contract import Compacted, Storage, StorageError, StorageEvent

if TYPE_CHECKING:
    from .cache import WatchCache
    from .event import WatchCacheEvent
    from .watcher import Watcher

logger = logging.getLogger("kubewright.apiserver")

_PROGRESS_INTERVAL = 0.1
"""Seconds between requests for progress from a store that does not report it yet."""


RECENT_REVISIONS = 5_000
"""Revisions before its start that a server of a shared storage reads, so that watches of clients of other
servers can resume there."""

_RECENT_TIMEOUT = 2.0
"""Seconds to read recent events at the start; without them, such watches receive 410."""


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

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher that has ended."""
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
        """Call all watchers that are due; tests with their own clock call it."""
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
    """Receives the events of all resources, also of those that are added later."""

    def on_resource_added(self, cache: WatchCache) -> None:
        """Called when a resource is added."""

    def on_resource_removed(self, cache: WatchCache) -> None:
        """Called when a resource is removed."""

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """Called for every event."""

    def on_watch_lost(self) -> None:
        """Called when the watch on storage is interrupted: the known state may be stale."""

    def on_watch_restarted(self) -> None:
        """Called when the watch on storage continues or was restarted: list every resource again."""


class EventDispatcher:
    """Watches storage and dispatches its events; `revision` is that of the last one.

    An event that a watch cache or a listener cannot handle is logged and counted (`failures`); the stream
    goes on.
    """

    def __init__(self, storage: Storage, prefix: str, *, clock: Callable[[], float] = monotonic_time) -> None:
        self.storage = storage
        self.prefix = prefix
        self.clock = clock
        self.revision = 0
        self.running = False
        self.timer = WatchTimer(clock)
        self.listeners: list[EventListener] = []
        self.failures = 0
        """Events whose dispatch raised an exception."""
        self._caches: dict[str, tuple[WatchCache, ...]] = {}
        """By key prefix; resources of two groups can share one (events)."""
        self._task: asyncio.Task[None] | None = None
        self._watch: Any = None
        self._lost = False
        self._interrupted = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._progressed = asyncio.Event()
        """Replaced, and set, after each batch and each change of the connection."""
        self._recent: list[StorageEvent] = []
        """Events since `_recent_since` that no registered cache has received."""
        self._recent_since: int | None = None
        """`None`: recent events are not recorded."""
        self._unregistered: dict[str, int] = {}
        """Key prefixes of removed caches, with the revision up to which recent events are incomplete."""

    def register(self, cache: WatchCache) -> None:
        """Dispatch events with the cache's prefix to it."""
        key = cache.prefix[len(self.prefix) : -1]
        others = self._caches.get(key, ())
        self._caches[key] = (*others, cache)
        if self._recent_since is not None and not others:
            since = max(self._recent_since, self._unregistered.pop(key, 0))
            cache.load([event for event in self._take_recent(cache) if event.revision > since], since)
        elif self.running:
            cache.reset(self.revision)
        for listener in self.listeners:
            listener.on_resource_added(cache)

    def unregister(self, cache: WatchCache) -> None:
        """Stop dispatching events to a cache."""
        key = cache.prefix[len(self.prefix) : -1]
        caches = self._caches.get(key, ())
        if cache in caches:
            self._caches[key] = tuple(each for each in caches if each is not cache)
            if not self._caches[key]:
                del self._caches[key]
                if self._recent_since is not None:
                    self._unregistered[key] = self.revision
                    if len(self._unregistered) > RECENT_REVISIONS:
                        self._forget_recent(self.revision)
            for listener in self.listeners:
                listener.on_resource_removed(cache)

    async def start(self) -> None:
        """Start to watch storage."""
        self.revision = await self.storage.revision()
        self.running = True
        for cache in self._all():
            cache.reset(self.revision)
        if self.storage.is_shared:
            await self._load_recent()
        self._open_watch(self.revision)
        self._task = run_forever(self._follow, name="storage watch")

    async def stop(self) -> None:
        """Stop watching storage."""
        self.running = False
        self.timer.stop()
        for cache in self._all():
            cache.close_watchers()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _load_recent(self) -> None:
        """Read the events before the current revision into the windows of the caches."""
        since = max(1, self.revision - RECENT_REVISIONS)  # 0 means from now on
        try:
            async with asyncio.timeout(_RECENT_TIMEOUT):
                try:
                    events = await self._read_events(since)
                except Compacted as error:
                    since = error.oldest
                    events = await self._read_events(since)
        except (Compacted, StorageError, TimeoutError) as error:
            logger.info("recent events not loaded", extra={"error": str(error) or "timeout"})
            return
        self._recent, self._recent_since = events, since
        for cache in self._all():
            cache.load(self._take_recent(cache), since)

    async def _read_events(self, since: int) -> list[StorageEvent]:
        """Return the events after `since` up to the current revision."""
        events: list[StorageEvent] = []
        if since >= self.revision:
            return events
        watch = self.storage.watch(self.prefix, since)
        try:
            while await watch.progress() < self.revision:  # noqa: ASYNC110 - polls storage
                await asyncio.sleep(_PROGRESS_INTERVAL)
            while watch.pending:
                events += await anext(aiter(watch))
        finally:
            watch.close()
        return [event for event in events if event.revision <= self.revision]

    def _take_recent(self, cache: WatchCache) -> list[StorageEvent]:
        """Remove and return the recent events of a cache; resources of two groups can share them."""
        taken = [event for event in self._recent if event.key.startswith(cache.prefix)]
        if taken and len(self._caches_for(taken[0].key)) < 2:
            self._recent = [event for event in self._recent if not event.key.startswith(cache.prefix)]
        return taken

    @property
    def connected(self) -> bool:
        """Whether every change in storage reaches this dispatcher without delay."""
        return not self._lost and self._watch is not None and self._watch.connected

    async def wait_until_connected(self) -> None:
        """Wait until `connected` is true."""
        while self.running and not self.connected:
            await self._progressed.wait()

    def _open_watch(self, revision: int) -> Any:
        watch = self._watch = self.storage.watch(self.prefix, revision)
        watch.on_connection_change = partial(self._connection_changed, watch)
        return watch

    def _connection_changed(self, watch: Any, connected: bool) -> None:
        """Make listeners list again after an interruption; watches of clients continue without a gap."""
        if watch is not self._watch or self._lost or not self.running:
            return
        if not connected:
            self._interrupted = True
            logger.warning("storage watch interrupted")
            for listener in self.listeners:
                listener.on_watch_lost()
        elif self._interrupted:
            self._interrupted = False
            logger.info("storage watch resumed")
            for listener in self.listeners:
                listener.on_watch_restarted()
        self._report_progress()

    async def _follow(self) -> None:
        watch = self._watch  # after a failure of this loop a closed one, which is replaced
        while self.running:
            try:
                async for batch in watch:
                    for event in batch:
                        self._dispatch(event)
                    self._advance(batch[-1].revision)
            except (Compacted, StorageError) as error:
                logger.warning("storage watch lost; restarting it", extra={"error": str(error)})
            except Exception:
                logger.exception("storage watch failed; restarting it")
            finally:
                watch.close()
            watch = await self._restart()

    def _dispatch(self, event: StorageEvent) -> None:
        caches = self._caches_for(event.key)
        if self._recent_since is not None and not caches:
            self._record_recent(event)
        for cache in caches:
            try:
                cache.add_event(event)
            except Exception:
                self.failures += 1
                logger.exception(
                    "storage event not dispatched", extra={"key": event.key, "revision": event.revision}
                )

    def _record_recent(self, event: StorageEvent) -> None:
        """Record an event for a cache that is registered later, such as that of a custom resource."""
        self._recent.append(event)
        if len(self._recent) > RECENT_REVISIONS:
            self._forget_recent(self._recent[RECENT_REVISIONS // 2 - 1].revision)

    def _forget_recent(self, revision: int) -> None:
        """Forget the recent events up to a revision."""
        self._recent_since = revision
        self._recent = [event for event in self._recent if event.revision > revision]
        self._unregistered = {key: since for key, since in self._unregistered.items() if since > revision}

    async def _restart(self) -> Any:
        """Start another watch at the current revision; every listener lists again."""
        self._lost, self._interrupted = True, False
        self._recent, self._recent_since = [], None
        self._unregistered.clear()
        for cache in self._all():
            cache.close_watchers()
        for listener in self.listeners:
            listener.on_watch_lost()
        delay = 0.1
        while True:
            await asyncio.sleep(delay)
            delay = min(delay * 2, 5.0)
            try:
                revision = await self.storage.revision()
                break
            except StorageError as error:
                logger.warning("storage unreachable; retrying", extra={"error": str(error)})
        watch = self._open_watch(revision)
        for cache in self._all():
            cache.close_watchers()
            cache.reset(revision)
        self._lost = False
        self._advance(revision)
        for listener in self.listeners:
            listener.on_watch_restarted()
        return watch

    def _advance(self, revision: int) -> None:
        """Everything up to `revision` has been dispatched."""
        self.revision = revision
        if self._waiters:
            self._wake()
        self._report_progress()

    def _report_progress(self) -> None:
        self._progressed.set()
        self._progressed = asyncio.Event()

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
        """Wait until the change with this revision has been dispatched.

        The revision must be that of a key under the dispatcher's prefix (a write through a
        `ResourceStore`), or in the future. For other revisions use `catch_up`.
        """
        if revision <= self.revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, future))
        try:
            await future
        finally:
            self._waiters = [entry for entry in self._waiters if entry[1] is not future]

    def call_at(self, revision: int, callback: Callable[[int], object]) -> None:
        """Call `callback` with a revision once it has been dispatched; it is a later one than now."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: callback(revision))
        self._waiters.append((revision, future))

    async def catch_up(self) -> None:
        """Wait until every change that is stored by now has been dispatched."""
        revision = await self.storage.revision()
        while revision > self.revision and self.running:
            watch, progressed = self._watch, self._progressed
            try:
                progress = 0 if self._lost else await watch.progress()
            except (Compacted, StorageError):
                progress = 0
            if watch is self._watch and progress >= revision and not watch.pending:
                # The last changes were to keys outside the prefix.
                self._advance(progress)
                return
            try:
                async with asyncio.timeout(_PROGRESS_INTERVAL):
                    await progressed.wait()
            except TimeoutError:
                continue

    async def wait_for_storage_revision(self, revision: int, timeout: float) -> None:
        """Wait until storage has reached `revision`; raises `Timeout` if it does not within `timeout`
        seconds."""
        if revision <= self.revision or revision <= await self.storage.revision():
            return
        try:
            async with asyncio.timeout(timeout):
                await self.wait_for_revision(revision)
        except TimeoutError:
            error = too_large_resource_version(revision, self.revision)
            raise error from None
