"""Base of the storages in this process: everything except durability.

Reads, watches, history and expiry use a `Keyspace`. A write is checked against the visible state and passed
to `_commit`, which makes it durable and applies it: immediately in memory, with the next group on disk. While
a write of a key is pending, the next writer of that key fails if it already conflicts with the visible state;
otherwise it waits and checks again. Values that may still be lost are never visible.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
import heapq
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kubewright.api.values.times import wall_time
from kubewright.background import run_forever

from .contract import (
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    RequestTooLarge,
    RevisionMismatch,
    Storage,
    StorageError,
    StorageEvent,
)
from .keyspace import History, Keyspace, KeyspaceWatch

if TYPE_CHECKING:
    from .memory import MemoryStorage

MAX_REQUEST_BYTES = 1024 * 1024 * 3 // 2
"""The default of etcd's `--max-request-bytes`."""


class Rewound(NamedTuple):
    """What a rewind changed."""

    written: int
    deleted: int
    revision: int
    """The revision of the last change."""


class LocalStorage(Storage):
    """A storage whose readable state is in this process.

    `clock` returns seconds since the epoch, for expiry and history. `expire` deletes expired keys; a timer
    calls it, and tests with their own clock. A larger key and value than `max_request_bytes` raise
    `RequestTooLarge`, so that an object that can be stored here can be stored in etcd, too.
    """

    manages_compaction = True
    shares_values = True
    maintenance_interval = 5.0
    """Seconds between compactions of expired history."""

    def __init__(
        self,
        *,
        history: History | None = None,
        clock: Callable[[], float] = wall_time,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.max_request_bytes = max_request_bytes
        self._clock = clock
        self._keyspace = Keyspace(history or History())
        self._deadlines: list[tuple[float, int, str]] = []
        self._maintenance: asyncio.Task[None] | None = None
        self._maintenance_due = asyncio.Event()
        self._pending: dict[str, list[asyncio.Future[None]]] = {}
        self._opened = False

    @property
    def keyspace(self) -> Keyspace:
        """The visible state."""
        return self._keyspace

    @abstractmethod
    async def _commit(self, event: StorageEvent, expires: float | None) -> None:
        """Make a change durable and apply it; its revision is from `_next_revision`."""

    @abstractmethod
    async def _commit_all(self, create: Callable[[], list[tuple[StorageEvent, float | None]]]) -> None:
        """Call `create` while no write is pending, and commit its changes; they become visible together."""

    @abstractmethod
    def _next_revision(self) -> int:
        """Return the next revision."""

    @abstractmethod
    async def _compact(self, revision: int) -> None:
        """Compact the keyspace and its file."""

    async def open(self) -> None:
        self._opened = True
        self._keyspace.mark(self._clock())
        self._maintenance = run_forever(self._maintain, name="storage maintenance")

    async def close(self) -> None:
        self._opened = False
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.wait({self._maintenance})
            self._maintenance = None
        self._keyspace.close_watches()

    async def revision(self) -> int:
        return self._keyspace.revision

    async def get(self, key: str) -> KeyValue | None:
        return self._keyspace.live.get(key)

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        return await self._keyspace.page(prefix, start, limit, revision)

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        if len(key) + len(value) > self.max_request_bytes:
            raise RequestTooLarge
        while True:
            current = self._keyspace.live.get(key)
            if current is not None:
                raise KeyExists(current)
            if key not in self._pending:
                revision = self._next_revision()
                event = StorageEvent("put", key, value, None, revision, revision)
                await self._commit(event, self._expiry(ttl))
                return revision
            await self._wait_for_pending(key)

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        if len(key) + len(value) > self.max_request_bytes:
            raise RequestTooLarge
        while True:
            current = self._keyspace.live.get(key)
            if current is None or current.mod_revision != expected:
                raise RevisionMismatch(key, current)
            if key not in self._pending:
                revision = self._next_revision()
                event = StorageEvent("put", key, value, current, current.create_revision, revision)
                await self._commit(event, self._expiry(ttl))
                return revision
            await self._wait_for_pending(key)

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
            await self._wait_for_pending(key)

    # Time travel

    def branch(self, revision: int = 0) -> MemoryStorage:
        """Return a storage in memory with the state and history at a revision, by default the current one.

        Values are shared, so a branch costs memory for its keys and for what changes in it. Raises
        `Compacted` or `FutureRevision`.
        """
        from .memory import MemoryStorage

        found = MemoryStorage(clock=self._clock, max_request_bytes=self.max_request_bytes)
        found._keyspace = self._keyspace.fork(revision or self._keyspace.revision)
        live = found._keyspace.live
        for expires, changed, key in sorted(self._deadlines):
            if key in live and live[key].mod_revision == changed:
                found._expire_at(expires, changed, key)
        return found

    async def rewind(self, prefix: str, revision: int, *, keeps: Callable[[str], bool]) -> Rewound:
        """Restore the keys with a prefix to their values at a revision.

        The differences are written as ordinary changes, which become visible together: revisions continue to
        grow, watches receive the events, and the history still contains what was undone. A key that was
        deleted and created again since is deleted first; keys get their former creation revision. Keys for
        which `keeps` returns true do not change. Raises `Compacted` or `FutureRevision`.
        """
        keyspace = self._keyspace
        keyspace.check_revision(revision)
        counts = [0, 0]

        def create() -> list[tuple[StorageEvent, float | None]]:
            expiries = {(key, changed): expires for expires, changed, key in self._deadlines}
            wanted = {each.key: each for each in keyspace.range(prefix, None, 0, revision).items}
            current = {each.key: each for each in keyspace.range(prefix, None, 0, 0).items}
            changes: list[tuple[StorageEvent, float | None]] = []
            at = keyspace.revision
            for key, item in current.items():
                found = wanted.get(key)
                if not keeps(key) and (found is None or found.create_revision != item.create_revision):
                    at += 1
                    changes.append((StorageEvent("delete", key, None, item, item.create_revision, at), None))
                    counts[1] += found is None
            deleted = {each.key for each, _ in changes}
            for item in sorted(wanted.values(), key=lambda each: each.mod_revision):
                before = None if item.key in deleted else current.get(item.key)
                if keeps(item.key) or (before is not None and before.value == item.value):
                    continue
                at += 1
                event = StorageEvent("put", item.key, item.value, before, item.create_revision, at)
                changes.append((event, expiries.get((item.key, item.mod_revision))))
                counts[0] += 1
            return changes

        await self._commit_all(create)
        return Rewound(counts[0], counts[1], keyspace.revision)

    def _expiry(self, ttl: int | None) -> float | None:
        return None if ttl is None else self._clock() + ttl

    def _apply(self, event: StorageEvent, expires: float | None) -> None:
        self._keyspace.apply(event)
        self._keyspace.timeline.record(self._clock(), event.revision)
        if expires is not None:
            self._expire_at(expires, event.revision, event.key)
        if self._keyspace.overgrown:
            self._maintenance_due.set()

    async def _wait_for_pending(self, key: str) -> None:
        """Wait until the pending write of a key has succeeded or failed."""
        waiter = asyncio.get_running_loop().create_future()
        self._pending[key].append(waiter)
        await waiter

    def watch(self, prefix: str, revision: int) -> KeyspaceWatch:
        return self._keyspace.watch(prefix, revision)

    async def compact(self, revision: int) -> None:
        if revision > self._keyspace.revision:
            raise FutureRevision(revision, self._keyspace.revision)
        await self._compact(revision)

    def _expire_at(self, expires: float, revision: int, key: str) -> None:
        heapq.heappush(self._deadlines, (expires, revision, key))
        if self._deadlines[0][1] == revision:
            self._maintenance_due.set()

    async def expire(self) -> int:
        """Delete all expired keys; return their number."""
        now = self._clock()
        removed = 0
        due: list[tuple[float, int, str]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            due.append(heapq.heappop(self._deadlines))
        while due:
            try:
                # A key that was written since has another revision, and its own deadline if any.
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

    async def _maintain(self) -> None:
        """Delete expired keys and compact history."""
        next_compaction = self._clock() + self.maintenance_interval
        while True:
            now = self._clock()
            # A clock that was set back does not delay maintenance by more than one interval.
            next_compaction = min(next_compaction, now + self.maintenance_interval)
            until = min(next_compaction, self._deadlines[0][0]) if self._deadlines else next_compaction
            self._maintenance_due.clear()
            try:
                async with asyncio.timeout(min(self.maintenance_interval, max(0.01, until - now))):
                    await self._maintenance_due.wait()
            except TimeoutError:
                pass
            try:
                await self.expire()
                if self._clock() >= next_compaction or self._keyspace.overgrown:
                    next_compaction = self._clock() + self.maintenance_interval
                    await self._compact(self._keyspace.compaction_due(self._clock()))
                    self._keyspace.mark(self._clock())
            except StorageError:
                # Writers get the same error; retried in the next round.
                await asyncio.sleep(1.0)
