"""One reader of storage for all resources.

`Feed` follows everything in storage through a single watch and hands each change to the `Hub` (`watch.py`) of
its resource, and to the parts of the server that follow every resource. One `Timer` serves the timeouts and
bookmarks of all watchers.
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
    from .watch import Change, Hub, Watcher

logger = logging.getLogger("kubewright.apiserver")

_HANDING_ON = 5
"""Turns of the event loop within which the feed takes in what is queued for it."""


class Timer:
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


class Follower(Protocol):
    """A part of the server that follows every resource, also those that are yet to come."""

    def added(self, hub: Hub) -> None:
        """A resource is served from now on."""

    def removed(self, hub: Hub) -> None:
        """A resource is no longer served."""

    def changed(self, hub: Hub, change: Change) -> None:
        """An object was written or removed."""

    def lost(self) -> None:
        """Changes may have been missed: read everything anew."""


class Feed:
    """Follows storage and knows how far it has come (`revision`)."""

    def __init__(self, storage: Storage, prefix: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.storage = storage
        self.prefix = prefix
        self.clock = clock
        self.revision = 0
        self.running = False
        self.timer = Timer(clock)
        self.followers: list[Follower] = []
        self._hubs: dict[str, tuple[Hub, ...]] = {}
        """By the beginning of their keys; resources of two groups may share one (events)."""
        self._task: asyncio.Task[None] | None = None
        self._watch: Any = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def register(self, hub: Hub) -> None:
        """Hand events under the hub's prefix to it."""
        key = hub.prefix[len(self.prefix) : -1]
        self._hubs[key] = (*self._hubs.get(key, ()), hub)
        if self.running:
            hub.begin(self.revision)
        for follower in self.followers:
            follower.added(hub)

    def unregister(self, hub: Hub) -> None:
        """Stop doing so."""
        key = hub.prefix[len(self.prefix) : -1]
        hubs = self._hubs.get(key, ())
        if hub in hubs:
            self._hubs[key] = tuple(each for each in hubs if each is not hub)
            if not self._hubs[key]:
                del self._hubs[key]
            for follower in self.followers:
                follower.removed(hub)

    async def start(self) -> None:
        """Begin to follow."""
        self.revision = await self.storage.revision()
        self.running = True
        for hub in self._all():
            hub.begin(self.revision)
        watch = self._watch = self.storage.watch(self.prefix, self.revision)
        self._task = asyncio.create_task(self._follow(watch))

    async def stop(self) -> None:
        """Stop following."""
        self.running = False
        self.timer.stop()
        for hub in self._all():
            hub.close_watchers()
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
                        for hub in self._hubs_of(event.key):
                            hub.take(event)
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
            for hub in self._all():
                hub.close_watchers()
                hub.begin(self.revision)
            for follower in self.followers:
                follower.lost()
            watch = self._watch = self.storage.watch(self.prefix, self.revision)

    def _all(self) -> list[Hub]:
        return [hub for hubs in self._hubs.values() for hub in hubs]

    def _hubs_of(self, key: str) -> tuple[Hub, ...]:
        first, _, rest = key[len(self.prefix) :].partition("/")
        return self._hubs.get(first) or self._hubs.get(f"{first}/{rest.partition('/')[0]}", ())

    def _wake(self) -> None:
        waiting = self._waiters
        self._waiters = []
        for wanted, future in waiting:
            if wanted > self.revision:
                self._waiters.append((wanted, future))
            elif not future.done():
                future.set_result(None)

    async def passed(self, revision: int) -> None:
        """Wait until everything up to `revision` has been handed on."""
        if revision <= self.revision or self._watch is None:
            return
        # Revisions may have gone to keys that are not followed, so the last one seen need never reach it.
        while await self._watch.progress() < revision and self.running:  # noqa: ASYNC110 - storage has no signal
            await asyncio.sleep(0.01)
        for _ in range(_HANDING_ON):
            await asyncio.sleep(0)

    async def reach(self, revision: int, timeout: float) -> None:
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
