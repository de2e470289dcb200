"""Storage in PostgreSQL, for several API servers on one state.

Revisions are committed in their order. A sequence would not do: it is advanced before the commit, and a
reader could see revision 8 while 7 is not committed yet. Here every transaction that writes first locks the
row with the current revision, and holds the lock until it is committed. So that this does not limit the
throughput, a transaction is a batch: all writes that were requested while the previous batch was in progress
are compared, numbered and stored by one call of a function in the database, one round trip and one flush to
the disk. A batch has at most one write of a key; the next write of the key is part of a later batch.

Every read is a statement on the primary server that starts after the request, and sees all commits that were
acknowledged before: it is linearizable. Concurrent reads of single keys share a statement. Nothing is held
here except connections; `postgresql_watch` describes how watches receive changes.

A write whose response was lost is not repeated: it raises `StorageError`, because it may have been applied.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, Unpack

from kubewright.background import run_forever
from kubewright.storage.contract import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    RequestTooLarge,
    RevisionMismatch,
    Storage,
    StorageError,
)
from kubewright.storage.local import MAX_REQUEST_BYTES
from kubewright.storage.sorted_keys import prefix_end
from kubewright.storage.url import PostgreSQLKeywords

from .connection import PostgreSQLConnections
from .options import PostgreSQLOptions
from .schema import Statements, prepare_schema
from .watch import ChangeNotifier, PostgreSQLWatch

_PAGE = 5000
"""Keys per response: a list without limit consists of pages at one revision."""

_WRITES = 256
"""Maximum number of writes in a transaction."""

_WRITTEN_BYTES = 4 * 1024 * 1024
"""A transaction has no further writes once its values exceed this size."""

_READS = 64
"""Maximum number of keys in a read."""

_COUNTS = 1000
"""Pages whose number of further keys is remembered."""

_EXPIRY_INTERVAL = 5.0
"""Maximum seconds between checks for expired keys."""

_COLLECTED = 2000
"""Revisions whose obsolete changes are deleted in one transaction."""


class _Write(NamedTuple):
    key: str
    value: bytes | None
    expected: int
    ttl: float | None
    revision: asyncio.Future[int]


class _Read(NamedTuple):
    key: str
    found: asyncio.Future[tuple[int, KeyValue | None]]


class PostgreSQLStorage(Storage):
    """Storage in PostgreSQL. `PostgreSQLOptions` documents the options of the URL."""

    manages_compaction = True
    is_shared = True

    def __init__(self, options: PostgreSQLOptions, *, max_request_bytes: int = MAX_REQUEST_BYTES) -> None:
        self.options = options
        self.max_request_bytes = max_request_bytes
        self._statements = Statements(options.schema)
        self._connections = PostgreSQLConnections(options)
        self._notifier = ChangeNotifier(self._connections, self._statements)
        self._writes: deque[_Write] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._reads: deque[_Read] = deque()
        self._reader: asyncio.Task[None] | None = None
        self._lists = asyncio.Semaphore(options.connections - 3)
        """Lists in progress; connections are left to writes, to reads of keys and to watches."""
        self._counts: dict[tuple[str, str, int], int] = {}
        """Numbers of keys after the pages that were read last: last key, end of the range, revision."""
        self._cancelled: set[asyncio.Task[Sequence[Any]]] = set()
        """Statements of requests that were cancelled."""
        self._expiry_due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def from_url(cls, url: str, **options: Unpack[PostgreSQLKeywords]) -> Self:
        """Return the storage of a `postgresql:` URL; keyword options override those of the URL."""
        given: dict[str, Any] = dict(options)
        own = {name: given.pop(name) for name in ("max_request_bytes",) if name in given}
        try:
            return cls(replace(PostgreSQLOptions.parse(url), **given), **own)
        except TypeError as error:
            raise StorageError(f"PostgreSQL storage: {error}") from error

    async def open(self) -> None:
        self._connections.open()
        try:
            await self._connections.run(
                lambda connection: prepare_schema(connection, self._statements, self.options.where),
                repeat=True,
                first=True,
            )
            await self.revision()
        except BaseException:
            await self._connections.close()
            raise
        self._notifier.start()
        self._tasks.append(run_forever(self._expire_regularly, name="postgresql expiry"))
        if self.options.compact_every > 0:
            self._tasks.append(run_forever(self._compact_regularly, name="postgresql compaction"))

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._notifier.stop()
        for batches in (self._writer, self._reader):
            if batches is not None:
                await batches
        await asyncio.gather(*self._cancelled, return_exceptions=True)
        await self._connections.close()

    async def size(self) -> int:
        size: int = await self._connections.fetchval(self._statements.size)
        return size

    # Reads

    async def revision(self) -> int:
        return (await self._read(""))[0]

    async def get(self, key: str) -> KeyValue | None:
        return (await self._read(key))[1] if _is_storable(key) else None

    async def _read(self, key: str) -> tuple[int, KeyValue | None]:
        """Return the current revision and the value of a key, from a statement that starts later."""
        found: asyncio.Future[tuple[int, KeyValue | None]] = asyncio.get_running_loop().create_future()
        self._reads.append(_Read(key, found))
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_batches(), name="postgresql reads")
        return await found

    async def _read_batches(self) -> None:
        try:
            while self._reads:
                batch = [self._reads.popleft() for _ in range(min(_READS, len(self._reads)))]
                keys = list({read.key for read in batch if read.key})
                try:
                    rows = await self._connections.fetch(self._statements.get, keys)
                except Exception as error:
                    _fail([read.found for read in batch], error)
                    continue
                revision = rows[0][0]
                self._notifier.advance(revision)
                items = {row[1]: KeyValue(row[1], row[2], row[3], row[4]) for row in rows}
                for read in batch:
                    if not read.found.done():
                        read.found.set_result((revision, items.get(read.key)))
        finally:
            self._reader = None

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        # Keys are paths: all of them start with a slash.
        low, high = prefix or "/", prefix_end(prefix or "/") or ""
        high = high.replace("\ud800", "\ue000")  # the code points between are not characters
        omitted = ""
        if start is not None and start > low:
            # No key has a zero character; the start of the next page has one after the last key.
            low, omits, _ = start.partition("\0")
            omitted = low if omits else ""
        items: list[KeyValue] = []
        while True:
            wanted = min(_PAGE, limit - len(items)) if limit else _PAGE
            arguments = (low, high, omitted, wanted) + ((revision,) if revision else ())
            statement = self._statements.list_at if revision else self._statements.list
            async with self._lists:
                rows = await self._fetch(statement, *arguments)
            current, compacted, key = rows[0][0], rows[0][1], rows[0][2]
            self._notifier.advance(current)
            if revision > current:
                raise FutureRevision(revision, current)
            if revision and revision < compacted:
                raise Compacted(revision, compacted)
            revision = revision or current  # Later pages are read at the revision of the first.
            if key is not None:
                items.extend([KeyValue(row[2], row[3], row[4], row[5]) for row in rows])
            if key is None or len(rows) < wanted:
                return Page(items, revision, False, 0)
            if limit and len(items) >= limit:
                left = await self._count(start, items, high, revision)
                return Page(items, revision, left > 0, left)
            low = omitted = items[-1].key

    async def _fetch(self, statement: str, *arguments: object) -> Sequence[Any]:
        """Return the rows of a statement, which continues if the request is cancelled.

        A statement that is cancelled would cost the connection, and a new one costs more than its rest.
        """
        fetching = asyncio.create_task(self._connections.fetch(statement, *arguments))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            self._cancelled.add(fetching)
            fetching.add_done_callback(self._forget)
            raise

    def _forget(self, fetching: asyncio.Task[Sequence[Any]]) -> None:
        self._cancelled.discard(fetching)
        if not fetching.cancelled():
            fetching.exception()

    async def _count(self, start: str | None, items: Sequence[KeyValue], high: str, revision: int) -> int:
        """Return the number of keys after a page. It is known if the previous page was read here."""
        last = items[-1].key
        known = None if start is None else self._counts.pop((start.rstrip("\0"), high, revision), None)
        if known is None:
            ((compacted, left),) = await self._connections.fetch(self._statements.count, last, high, revision)
            if revision < compacted:
                raise Compacted(revision, compacted)
        else:
            left = known - len(items)
        self._counts[last, high, revision] = left
        if len(self._counts) > _COUNTS:
            del self._counts[next(iter(self._counts))]
        return int(left)

    # Writes

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        while True:
            revision = await self._write(key, value, 0, ttl)
            if revision:
                return revision
            current = await self.get(key)
            if current is not None:  # otherwise it was deleted since
                raise KeyExists(current)

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        # As an expected revision, 0 means that the key must not exist.
        revision = await self._write(key, value, expected, ttl) if expected > 0 else 0
        if not revision:
            raise RevisionMismatch(key, await self.get(key))
        return revision

    async def delete(self, key: str, *, expected: int) -> int:
        revision = await self._write(key, None, expected, None) if expected > 0 else 0
        if not revision:
            raise RevisionMismatch(key, await self.get(key))
        return revision

    async def _write(self, key: str, value: bytes | None, expected: int, ttl: int | None) -> int:
        """Return the new revision, 0 if the key is not at the expected one."""
        if value is not None and len(key) + len(value) > self.max_request_bytes:
            raise RequestTooLarge
        if not _is_storable(key):
            raise StorageError(
                f"PostgreSQL cannot store the key {key!r}: it is not text without zero characters"
            )
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writes.append(_Write(key, value, expected, None if ttl is None else float(ttl), done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_batches(), name="postgresql writes")
        revision = await done
        if ttl is not None and ttl < _EXPIRY_INTERVAL:
            self._expiry_due.set()
        return revision

    async def _write_batches(self) -> None:
        try:
            while self._writes:
                batch = self._next_batch()
                if not batch:
                    continue
                keys, values, expected, ttls, _ = zip(*batch, strict=True)
                try:
                    revisions = await self._connections.fetchval(
                        self._statements.write, keys, values, expected, ttls, repeat=False
                    )
                except Exception as error:
                    _fail([write.revision for write in batch], error)
                    continue
                self._notifier.advance(max(revisions))
                for write, revision in zip(batch, revisions, strict=True):
                    if not write.revision.done():
                        write.revision.set_result(revision)
                # The writers continue first; what they request next is part of the next batch.
                await asyncio.sleep(0)
        finally:
            self._writer = None

    def _next_batch(self) -> tuple[_Write, ...]:
        """Remove writes of distinct keys from the queue."""
        batch: dict[str, _Write] = {}
        later: deque[_Write] = deque()
        size = 0
        while self._writes and len(batch) < _WRITES and size < _WRITTEN_BYTES:
            write = self._writes.popleft()
            if write.revision.done():
                continue  # The writer was cancelled.
            if write.key in batch:
                later.append(write)
            else:
                batch[write.key] = write
                size += len(write.value or b"")
        self._writes.extendleft(reversed(later))
        return tuple(batch.values())

    def watch(self, prefix: str, revision: int) -> PostgreSQLWatch:
        return PostgreSQLWatch(self._notifier, prefix, revision or None)

    # History and expiry

    async def compact(self, revision: int) -> None:
        current = await self.revision()
        if revision > current:
            raise FutureRevision(revision, current)
        await self._connections.fetchval(self._statements.compact, revision)
        await self._collect()

    async def _collect(self) -> None:
        """Delete obsolete changes, in several transactions."""
        while await self._connections.fetchval(self._statements.collect, _COLLECTED):
            pass

    async def _compact_regularly(self) -> None:
        """Compact to the revision of one period ago. Every server tries; one of them does it per period."""
        period = self.options.compact_every
        while True:
            try:
                revision = await self._connections.fetchval(
                    self._statements.compaction_due, period, repeat=False
                )
                if revision:
                    await self.compact(revision)
                else:
                    await self._collect()  # Another server may have been stopped meanwhile.
            except (StorageError, FutureRevision):
                pass  # The next period, or another server, compacts further.
            await asyncio.sleep(period / 4)

    async def _expire_regularly(self) -> None:
        """Delete expired keys. Every server tries; a key that was written since has another revision."""
        while True:
            self._expiry_due.clear()
            delay = _EXPIRY_INTERVAL
            try:
                delay = await self._expire()
            except StorageError:
                pass  # The keys are still expired at the next check.
            try:
                async with asyncio.timeout(delay):
                    await self._expiry_due.wait()
            except TimeoutError:
                pass

    async def _expire(self) -> float:
        """Delete keys that have expired; return the seconds until the next check."""
        rows = await self._connections.fetch(self._statements.expiries)
        expired = [row for row in rows if row[2] <= 0]
        outcomes = await asyncio.gather(
            *(self.delete(key, expected=revision) for key, revision, _ in expired), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, StorageError):
                raise outcome
        # The delay limits the number of batches, and its jitter how often servers delete the same keys.
        seconds = 0.0 if expired else rows[0][2] if rows else _EXPIRY_INTERVAL
        return float(max(0.2, min(_EXPIRY_INTERVAL, seconds)) * random.uniform(1.0, 1.5))  # noqa: S311


def _is_storable(key: str) -> bool:
    """Whether the type `text` has a key. One that it does not have would fail a whole batch."""
    if "\0" in key:
        return False
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            return False
    return True


def _fail(waiting: list[asyncio.Future[Any]], error: Exception) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)
