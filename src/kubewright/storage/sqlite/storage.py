"""Storage in a SQLite file, served from memory.

Reads and watches never use the file. Writes are queued in the event loop; one thread commits all queued
writes as one durable transaction. Only then are the changes visible, in revision order, and their writers
continue. Meanwhile the next group is queued: the higher the load, the larger the groups.

When a commit fails (disk full, file read-only), its writers and those queued behind it get a `StorageError`;
reads continue, and the next write tries again.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, TypeVarTuple, Unpack

from kubewright.api.values.times import wall_time
from kubewright.storage.contract import StorageError, StorageEvent
from kubewright.storage.keyspace import History
from kubewright.storage.local import MAX_REQUEST_BYTES, LocalStorage
from kubewright.storage.timeline import Timeline

from .logfile import LogFile
from .rows import Row

logger = logging.getLogger("kubewright.storage")

_COMPACTION_BATCH = 1000
"""Rows deleted per transaction, to limit how long writers wait for a compaction."""


_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _Write(NamedTuple):
    event: StorageEvent
    expires: float | None
    done: asyncio.Future[None]


class SQLiteStorage(LocalStorage):
    """Storage in one SQLite file, which one server uses at a time.

    A damaged file raises `DamagedStore` when it is opened. With `accept_data_loss` the intact part is copied
    to a new file instead, and the damaged file is renamed to `PATH.damaged`. Without `fsync`, writes are
    acknowledged before they are on the disk: they survive the end of the process, not a loss of power.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        history: History | None = None,
        clock: Callable[[], float] = wall_time,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        accept_data_loss: bool = False,
        fsync: bool = True,
    ) -> None:
        super().__init__(history=history, clock=clock, max_request_bytes=max_request_bytes)
        self._file = LogFile(
            Path(path),
            accept_data_loss=accept_data_loss,
            fsync=fsync,
            stores_times=history is not None and history.stores_times,
        )
        self._thread: ThreadPoolExecutor | None = None
        self._last_revision = 0
        self._queue: list[_Write] = []
        self._committing: list[_Write] = []
        self._rejected_restore = ""
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return the storage of a `sqlite:` URL."""
        path = url.partition(":")[2]
        path = path[2:] if path.startswith("//") else path
        if not path:
            raise StorageError(f"{url!r} has no path; use sqlite:PATH, such as sqlite:./state.db")
        return cls(path, **options)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    async def size(self) -> int:
        return self._file.size()

    async def open(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storage")
        try:
            found = await self._in_thread(self._file.open)
        except BaseException:
            self._thread.shutdown()
            self._thread = None
            raise
        self._keyspace.restore(found.live.values(), found.events, found.revision, found.compacted)
        self._keyspace.timeline = Timeline(found.times)
        self._last_revision = found.revision
        for deadline in found.expiries:
            self._expire_at(*deadline)
        await super().open()
        if found.obsolete:
            try:
                await self._drop(found.compacted, found.obsolete)
            except StorageError:
                pass  # Retried at the next start; writers get the error.

    async def close(self) -> None:
        if self._thread is None:
            return
        await super().close()
        await self._idle.wait()
        await self._in_thread(self._file.close)
        self._thread.shutdown()
        self._thread = None

    async def expire(self) -> int:
        if self._has_restore_request():
            from kubewright.storage.backups import serve_restore

            await serve_restore(self, self._file.path)
        return await super().expire()

    def _has_restore_request(self) -> bool:
        """Whether the user of this server, or root, has requested to restore a backup."""
        if not os.path.lexists(f"{self._file.path}.restore"):
            return False
        from kubewright.storage.backups import check_request

        reason = check_request(self._file.path)
        if reason and reason != self._rejected_restore:
            logger.error("rejected a request to restore a backup", extra={"reason": reason})
        self._rejected_restore = reason
        return not reason

    async def _in_thread(self, work: Callable[[Unpack[_Arguments]], _Result], *args: *_Arguments) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _next_revision(self) -> int:
        if not self._opened:
            raise StorageError(f"storage {self.path} is not open")
        self._last_revision += 1
        return self._last_revision

    async def _commit(self, event: StorageEvent, expires: float | None) -> None:
        done = asyncio.get_running_loop().create_future()
        self._pending[event.key] = []
        self._queue.append(_Write(event, expires, done))
        if not self._committing:
            self._start_group()
        await done

    async def _commit_all(self, create: Callable[[], list[tuple[StorageEvent, float | None]]]) -> None:
        while self._committing:
            await self._idle.wait()
        self._next_revision()  # raises if the storage is not open
        self._last_revision = self._keyspace.revision
        loop = asyncio.get_running_loop()
        writes = [_Write(event, expires, loop.create_future()) for event, expires in create()]
        if not writes:
            return
        self._last_revision = writes[-1].event.revision
        self._pending.update((each.event.key, []) for each in writes)
        self._queue += writes
        self._start_group()
        await asyncio.gather(*(each.done for each in writes))

    def _start_group(self) -> None:
        """Pass all queued writes to the writer thread."""
        assert self._thread is not None
        self._committing, self._queue = self._queue, []
        self._idle.clear()
        rows = [
            Row(event.revision, event.key, event.create_revision, expires, event.value)
            for event, expires, _ in self._committing
        ]
        loop = asyncio.get_running_loop()
        written = loop.run_in_executor(self._thread, self._file.append, rows, self._clock())
        written.add_done_callback(self._group_done)

    def _group_done(self, outcome: asyncio.Future[None]) -> None:
        group, self._committing = self._committing, []
        error = outcome.exception()
        if error is None:
            for event, expires, _ in group:
                self._apply(event, expires)
        else:
            # Writes queued behind a failed group have later revisions, so they fail, too.
            group += self._queue
            self._queue = []
            self._last_revision = self._keyspace.revision
        for event, _, done in group:
            waiters = self._pending.pop(event.key, [])  # a rewind can change a key twice
            if not done.done():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        if self._queue:
            self._start_group()
        else:
            self._idle.set()

    async def _compact(self, revision: int) -> None:
        if revision > self._keyspace.compacted:
            await self._drop(revision, self._keyspace.compact(revision))

    async def _drop(self, compacted: int, obsolete: list[int]) -> None:
        for at in range(0, max(1, len(obsolete)), _COMPACTION_BATCH):
            await self._in_thread(self._file.forget, compacted, obsolete[at : at + _COMPACTION_BATCH])
