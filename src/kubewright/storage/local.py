"""What the stores that live in this process share: everything but where a write is kept.

Reads, watches, history and expiry work on a `Keyspace`. A write is checked against the visible state and
handed to `_commit`, which makes it durable, applies it and returns: at once in memory, with the next group
on disk. While a key has a write under way, the next writer of that key first fails if it has already lost
against the visible state, and otherwise waits and looks again. So nobody ever sees, or is refused because
of, a value that may yet be lost.
"""

# ruff: noqa: D102 (the contract says what the methods do)

from __future__ import annotations

import asyncio
import heapq
import time
from abc import abstractmethod
from collections.abc import Callable

from .contract import (
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    RevisionMismatch,
    Storage,
    StorageError,
    StorageEvent,
)
from .keyspace import History, Keyspace, KeyspaceWatch

_TICK = 5.0
"""Seconds between looks at the age of history."""


class LocalStorage(Storage):
    """A store whose readable state is in this process.

    `clock` gives seconds since the epoch; it dates expiry and history. Keys are removed by `expire`, which a
    timer calls; a test with its own clock calls it itself.
    """

    def __init__(self, *, history: History | None = None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keyspace = Keyspace(history or History())
        self._deadlines: list[tuple[float, int, str]] = []
        self._upkeep: asyncio.Task[None] | None = None
        self._upkeep_due = asyncio.Event()
        self._pending: dict[str, list[asyncio.Future[None]]] = {}
        self._opened = False

    @abstractmethod
    async def _commit(self, event: StorageEvent, expires: float | None) -> None:
        """Make a change durable and apply it; `_next_revision` has given it its revision."""

    @abstractmethod
    def _next_revision(self) -> int:
        """Take the next revision."""

    @abstractmethod
    async def _forget(self, revision: int) -> None:
        """Compact the keyspace and whatever is below it."""

    async def open(self) -> None:
        self._opened = True
        self._keyspace.mark(self._clock())
        self._upkeep = asyncio.create_task(self._keep_up(), name="storage upkeep")

    async def close(self) -> None:
        self._opened = False
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.wait({self._upkeep})
            self._upkeep = None
        self._keyspace.close_watches()

    async def revision(self) -> int:
        return self._keyspace.revision

    async def get(self, key: str) -> KeyValue | None:
        return self._keyspace.live.get(key)

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        self._keyspace.check_revision(revision)
        return self._keyspace.range(prefix, start, limit, revision)

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        while True:
            current = self._keyspace.live.get(key)
            if current is not None:
                raise KeyExists(current)
            if key not in self._pending:
                revision = self._next_revision()
                event = StorageEvent("put", key, value, None, revision, revision)
                await self._commit(event, self._expiry(ttl))
                return revision
            await self._settled(key)

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        while True:
            current = self._keyspace.live.get(key)
            if current is None or current.mod_revision != expected:
                raise RevisionMismatch(key, current)
            if key not in self._pending:
                revision = self._next_revision()
                event = StorageEvent("put", key, value, current, current.create_revision, revision)
                await self._commit(event, self._expiry(ttl))
                return revision
            await self._settled(key)

    async def delete(self, key: str, *, expected: int) -> int:
        while True:
            current = self._keyspace.live.get(key)
            if current is None or current.mod_revision != expected:
                raise RevisionMismatch(key, current)
            if key not in self._pending:
                revision = self._next_revision()
                await self._commit(
                    StorageEvent("delete", key, None, current, current.create_revision, revision), None
                )
                return revision
            await self._settled(key)

    def _expiry(self, ttl: int | None) -> float | None:
        return None if ttl is None else self._clock() + ttl

    def _apply(self, event: StorageEvent, expires: float | None) -> None:
        self._keyspace.apply(event)
        if expires is not None:
            self._expire_at(expires, event.revision, event.key)
        if self._keyspace.overgrown:
            self._upkeep_due.set()

    async def _settled(self, key: str) -> None:
        """Wait until the write of `key` that is under way has succeeded or failed."""
        follower = asyncio.get_running_loop().create_future()
        self._pending[key].append(follower)
        await follower

    def watch(self, prefix: str, revision: int) -> KeyspaceWatch:
        return self._keyspace.watch(prefix, revision)

    async def compact(self, revision: int) -> None:
        if revision > self._keyspace.revision:
            raise FutureRevision(revision, self._keyspace.revision)
        await self._forget(revision)

    def _expire_at(self, expires: float, revision: int, key: str) -> None:
        heapq.heappush(self._deadlines, (expires, revision, key))
        if self._deadlines[0][1] == revision:
            self._upkeep_due.set()

    async def expire(self) -> int:
        """Delete every key whose time has come; returns how many there were."""
        now = self._clock()
        removed = 0
        due: list[tuple[float, int, str]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            due.append(heapq.heappop(self._deadlines))
        while due:
            try:
                # A key that has been written since carries another revision, and its own deadline if any.
                await self.delete(due[-1][2], expected=due[-1][1])
                removed += 1
            except RevisionMismatch:
                pass
            except StorageError:
                for deadline in due:
                    heapq.heappush(self._deadlines, deadline)
                raise
            due.pop()
        return removed

    async def _keep_up(self) -> None:
        """Expire keys in time, and let history go when it is old enough."""
        next_look = self._clock() + _TICK
        while True:
            now = self._clock()
            until = min(next_look, self._deadlines[0][0]) if self._deadlines else next_look
            self._upkeep_due.clear()
            try:
                async with asyncio.timeout(min(_TICK, max(0.01, until - now))):
                    await self._upkeep_due.wait()
            except TimeoutError:
                pass
            try:
                await self.expire()
                if self._clock() >= next_look or self._keyspace.overgrown:
                    next_look = self._clock() + _TICK
                    await self._forget(self._keyspace.compaction_due(self._clock()))
                    self._keyspace.mark(self._clock())
            except StorageError:
                # The writers are told the same; the next look tries again.
                await asyncio.sleep(1.0)
