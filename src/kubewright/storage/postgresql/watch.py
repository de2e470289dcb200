"""Watches on PostgreSQL.

A `ChangeNotifier` knows the highest revision that was committed: from the notifications of the server, from
the writes and reads of this process, and from a query once a second, which also finds out whether the
connection for notifications is alive. A watch reads the changes after its position when that revision is
higher. Revisions are committed in order, so a read that returns all changes up to the current revision is
complete, and the position of the watch is that revision.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from kubewright.background import run_forever
from kubewright.storage.contract import Compacted, KeyValue, StorageError, StorageEvent, StorageWatch

from .connection import PostgreSQLConnections, backoff
from .schema import Statements

logger = logging.getLogger("kubewright.storage")

QUEUE_LIMIT = 10_000
"""Maximum number of queued events; changes are not read above it."""

_BATCH = 250
"""Changes per read: each has two values."""

_POLL_INTERVAL = 1.0
"""Seconds between reads of the current revision, in case that a notification is lost."""


class ChangeNotifier:
    """The highest known revision, and the watches that wait for a higher one."""

    def __init__(self, connections: PostgreSQLConnections, statements: Statements) -> None:
        self.connections = connections
        self.statements = statements
        self.revision = 0
        self.connected = False
        self.watches: set[PostgreSQLWatch] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to listen for notifications."""
        self._task = run_forever(self._run, name="postgresql notifications")

    async def stop(self) -> None:
        """End all watches and stop listening."""
        tasks = [watch.task for watch in self.watches]
        for watch in list(self.watches):
            watch.close()
        if self._task is not None:
            self._task.cancel()
            tasks.append(self._task)
            self._task = None
        if tasks:
            await asyncio.wait(tasks)

    def advance(self, revision: int) -> None:
        """A revision is committed: let watches read up to it."""
        if revision > self.revision:
            self.revision = revision
            for watch in self.watches:
                watch.wake()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                connection = await self.connections.connect()
                try:
                    failures = 0
                    await self._listen(connection)
                finally:
                    connection.terminate()
            except Exception as error:
                logger.debug("PostgreSQL notifications interrupted", extra={"error": repr(error)})
                if isinstance(error, TimeoutError):
                    self.connections.discard_idle(time.monotonic() - self.connections.options.timeout)
            self._set_connected(False)
            failures += 1
            await asyncio.sleep(backoff(failures))

    async def _listen(self, connection: Any) -> None:
        """Receive notifications until the connection is lost."""
        lost = asyncio.Event()
        timeout = self.connections.options.timeout
        connection.add_termination_listener(lambda _: lost.set())
        async with asyncio.timeout(timeout):
            await connection.add_listener(self.statements.schema, self._notified)
        while not lost.is_set():
            known = self.revision
            revision = await connection.fetchval(self.statements.revision, timeout=timeout)
            if revision < known:
                self._reset(known, revision)
            self.advance(revision)
            self._set_connected(True)
            try:
                async with asyncio.timeout(_POLL_INTERVAL):
                    await lost.wait()
            except TimeoutError:
                pass

    def _notified(self, connection: Any, process: int, channel: str, payload: str) -> None:
        self.advance(int(payload))

    def _reset(self, known: int, revision: int) -> None:
        """The database has lost revisions: a standby without the last changes was promoted, or a backup
        restored. Watches end, and clients list again."""
        logger.error(
            "PostgreSQL has lost acknowledged changes", extra={"last_revision": known, "revision": revision}
        )
        self.revision = revision
        for watch in list(self.watches):
            watch.fail(Compacted(known, revision))

    def _set_connected(self, connected: bool) -> None:
        if connected != self.connected:
            self.connected = connected
            for watch in list(self.watches):
                if connected:
                    watch.wake(reconnected=True)
                else:
                    watch.set_connected(False)


class PostgreSQLWatch(StorageWatch):
    """Watch of the keys with a prefix after `revision`; `None`: from now on."""

    def __init__(self, notifier: ChangeNotifier, prefix: str, revision: int | None) -> None:
        self._notifier = notifier
        self._prefix = prefix
        self._position = revision
        self._queue: list[StorageEvent] = []
        self._error: Exception | None = None
        self._ended = False
        self._is_paused = False
        self._reader: asyncio.Future[None] | None = None
        self._progress: list[asyncio.Future[None]] = []
        self._due = asyncio.Event()
        self._due.set()
        self.connected = False
        notifier.watches.add(self)
        self.task = asyncio.create_task(self._run(), name="postgresql watch")
        self.task.add_done_callback(lambda _: notifier.watches.discard(self))

    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        return self

    async def __anext__(self) -> list[StorageEvent]:
        while True:
            if self._queue:
                batch, self._queue = self._queue, []
                if self._is_paused:
                    self._is_paused = False
                    self._due.set()
                return batch
            if self._ended:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    async def progress(self) -> int:
        wanted = self._notifier.revision
        while not self._ended and not self._is_full:
            if self._position is not None and self._position >= wanted:
                break
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._progress.append(waiter)
            await waiter
        if self._error is not None:
            raise self._error
        return self._position or 0

    @property
    def pending(self) -> bool:
        return bool(self._queue)

    @property
    def _is_full(self) -> bool:
        return len(self._queue) >= QUEUE_LIMIT

    def wake(self, *, reconnected: bool = False) -> None:
        """Read the changes after the position, if there are any."""
        if reconnected or self._position is None or self._position < self._notifier.revision:
            self._due.set()

    def close(self) -> None:
        self._queue = []
        self._end(None)

    def fail(self, error: Exception) -> None:
        """Raise an error after the queued events."""
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self.task.cancel()
        self._report()

    def _report(self) -> None:
        """Wake the reader and those who wait for progress."""
        if self._reader is not None and (self._queue or self._ended):
            if not self._reader.done():
                self._reader.set_result(None)
            self._reader = None
        waiting, self._progress = self._progress, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def _run(self) -> None:
        failures = 0
        try:
            while True:
                await self._due.wait()
                self._due.clear()
                if self._is_full:
                    self._is_paused = True
                    continue
                connected = self._notifier.connected
                try:
                    await self._read()
                except StorageError:
                    self.set_connected(False)
                    failures += 1
                    await asyncio.sleep(backoff(failures))
                    self._due.set()
                    continue
                failures = 0
                if connected and self._notifier.connected:
                    self.set_connected(True)
                self._report()
        except Exception as error:
            self._error = error
        finally:
            self._ended = True
            self._report()

    async def _read(self) -> None:
        """Queue the changes after the position."""
        connections, statements = self._notifier.connections, self._notifier.statements
        if self._position is None:
            self._position = await connections.fetchval(statements.revision)
        position = self._position
        rows = await connections.fetch(statements.changes, position, self._prefix, _BATCH)
        last, compacted = rows[0]["last"], rows[0]["compacted"]
        if position < compacted:
            raise Compacted(position, compacted)
        if rows[0]["revision"] is not None:
            self._queue.extend(map(_event, rows))
        if len(rows) == _BATCH:
            self._position = rows[-1]["revision"]
            self._due.set()
        else:
            self._position = max(position, last)
        self._notifier.advance(last)


def _event(row: Any) -> StorageEvent:
    _, _, revision, key, value, created, previous_revision, previous_value = row
    previous = None
    if previous_revision is not None:
        previous = KeyValue(key, previous_value, created, previous_revision)
    return StorageEvent("put" if value is not None else "delete", key, value, previous, created, revision)
