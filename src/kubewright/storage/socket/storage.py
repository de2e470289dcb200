"""`SocketStorage`: the storage of another process of this machine, read from a copy in this process.

    storage = SocketStorage(directory / "storage.sock")

The process with the store (`StorageServer`) streams every change to a `Keyspace` here. Reads and watches use
it as they use that of a memory storage; writes are requests over the socket, many of them in flight.

Reads are linearizable without a round trip. The server writes the revision of each write to shared memory
before the writer receives its result. A read compares it with the revision of the copy: if they are equal,
the copy has every write that was acknowledged before the read began; if not, the read waits for the events,
which are on their way.

When the connection ends, everything raises `StorageError` and `on_lost` is called. It does not connect again:
the state is in the other process.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from kubewright.storage.contract import KeyValue, Page, Storage, StorageError, StorageEvent
from kubewright.storage.keyspace import History, Keyspace, KeyspaceWatch

from .messages import (
    AnyRequest,
    Compact,
    Compaction,
    Create,
    Delete,
    Events,
    Failure,
    FrameReader,
    Result,
    ServerMessage,
    Size,
    Snapshot,
    SnapshotEnd,
    Update,
    decode_server_messages,
    encode_frame,
)
from .server import REVISION_NAME
from .shared_revision import SharedRevision

_LOST: Sequence[int] = (1 << 63,)
"""Takes the place of the shared revision without a connection: no copy is current."""


class SocketStorage(Storage):
    """The storage that a `StorageServer` serves at `path`."""

    shares_values = True
    manages_compaction = True

    def __init__(self, path: str | Path, *, on_lost: Callable[[StorageError], object] | None = None) -> None:
        self.path = Path(path)
        self.on_lost = on_lost
        self._keyspace = Keyspace(History())
        self._revision: SharedRevision | None = None
        self._committed: Sequence[int] = _LOST
        """The shared revision."""
        self._error: StorageError = StorageError("storage is not open")
        self._connection: _ClientConnection | None = None
        self._last_request = 0
        self._requests: list[AnyRequest] = []
        self._results: dict[int, asyncio.Future[int]] = {}
        self._readers: list[tuple[int, asyncio.Future[None]]] = []
        """Reads that wait until the copy has reached a revision."""
        self._snapshot: list[KeyValue] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._keyspace = Keyspace(History())
        try:
            self._revision = SharedRevision(self.path.with_name(REVISION_NAME))
            self._committed = cast(Sequence[int], self._revision.cell)
            _, self._connection = await loop.create_unix_connection(
                lambda: _ClientConnection(self), str(self.path)
            )
        except OSError as error:
            self._release()
            raise StorageError(
                f"cannot connect to the storage at {self.path}: {error.strerror or error}; "
                "its process has ended"
            ) from error
        try:
            await self._wait_until_current()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.transport.close()
        self._fail(StorageError("storage is not open"))
        self._keyspace.close_watches()

    def _release(self) -> None:
        self._committed = _LOST
        if self._revision is not None:
            self._revision.close()
            self._revision = None

    def lose(self, connection: _ClientConnection) -> None:
        """Handle the end of the connection."""
        if connection is not self._connection:
            return
        self._connection = None
        error = StorageError("the process that owns the store has ended")
        self._fail(error)
        for watch in self._keyspace.watches():
            watch.fail(error)
        if self.on_lost is not None:
            self.on_lost(error)

    def _fail(self, error: StorageError) -> None:
        """Let all waiting calls and later ones raise an error."""
        self._error = error
        self._release()
        waiting: list[asyncio.Future[int] | asyncio.Future[None]] = [
            *self._results.values(),
            *(future for _, future in self._readers),
        ]
        self._results, self._readers, self._requests = {}, [], []
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    def check_health(self) -> None:
        if self._connection is None:
            raise self._error

    # Reads

    async def _wait_until_current(self) -> None:
        """Wait until the copy has every write that is acknowledged by now."""
        if self._connection is None:
            raise self._error
        wanted = self._committed[0]
        if self._keyspace.revision < wanted or self._connection.is_starting:
            future = asyncio.get_running_loop().create_future()
            self._readers.append((wanted, future))
            await future

    async def revision(self) -> int:
        if self._keyspace.revision < self._committed[0]:
            await self._wait_until_current()
        return self._keyspace.revision

    async def get(self, key: str) -> KeyValue | None:
        if self._keyspace.revision < self._committed[0]:
            await self._wait_until_current()
        return self._keyspace.live.get(key)

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        if self._keyspace.revision < self._committed[0]:
            await self._wait_until_current()
        return await self._keyspace.page(prefix, start, limit, revision)

    def watch(self, prefix: str, revision: int) -> KeyspaceWatch:
        if self._connection is None:
            watch = self._keyspace.watch(prefix, revision)
            watch.fail(self._error)
            return watch
        return self._keyspace.watch(prefix, revision or self._committed[0])

    # Writes

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        return await self._call(Create(self._next_request(), key, value, ttl))

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        return await self._call(Update(self._next_request(), key, value, expected, ttl))

    async def delete(self, key: str, *, expected: int) -> int:
        return await self._call(Delete(self._next_request(), key, expected))

    async def compact(self, revision: int) -> None:
        await self._call(Compact(self._next_request(), revision))

    async def size(self) -> int | None:
        size = await self._call(Size(self._next_request()))
        return None if size < 0 else size

    def _next_request(self) -> int:
        self._last_request += 1
        return self._last_request

    def _call(self, request: AnyRequest) -> asyncio.Future[int]:
        """Send a request with the others of this iteration of the event loop."""
        if self._connection is None:
            raise self._error
        loop = asyncio.get_running_loop()
        result: asyncio.Future[int] = loop.create_future()
        self._results[request.number] = result
        if not self._requests:
            loop.call_soon(self._send_requests)
        self._requests.append(request)
        return result

    def _send_requests(self) -> None:
        requests, self._requests = self._requests, []
        if requests and self._connection is not None:
            self._connection.transport.write(encode_frame(requests))

    # Messages of the server

    def handle(self, message: ServerMessage) -> None:
        """Apply a message of the server."""
        match message:
            case Events():
                self._apply(message)
            case Result():
                result = self._results.pop(message.number)
                if not result.done():
                    result.set_result(message.value)
            case Failure():
                result = self._results.pop(message.number)
                if not result.done():
                    result.set_exception(message.exception())
            case Compaction():
                self._keyspace.compact(message.revision)
                self._keyspace.expire_lists(message.oldest_list)
            case Snapshot():
                self._snapshot += message.items
            case SnapshotEnd():
                items, self._snapshot = self._snapshot, []
                self._keyspace.restore(items, (), message.revision, message.revision)
                for watch in self._keyspace.watches():
                    watch.restart()

    def _apply(self, message: Events) -> None:
        keyspace = self._keyspace
        for revision, key, value, create_revision in message.events:
            if revision <= keyspace.revision:
                continue  # The history that was sent after a snapshot and the next flush can overlap.
            previous = keyspace.live.get(key)
            keyspace.apply(
                StorageEvent(
                    "delete" if value is None else "put", key, value, previous, create_revision, revision
                )
            )

    def wake_readers(self) -> None:
        """Continue the reads that waited for what was received."""
        revision, waiting, self._readers = self._keyspace.revision, self._readers, []
        for entry in waiting:
            wanted, future = entry
            if wanted > revision:
                self._readers.append(entry)
            elif not future.done():
                future.set_result(None)


class _ClientConnection(asyncio.Protocol):
    def __init__(self, storage: SocketStorage) -> None:
        self._storage = storage
        self._reader = FrameReader()
        self.transport: asyncio.Transport
        self.is_starting = True
        """Whether the first snapshot has not been received."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        storage = self._storage
        for frame in self._reader.feed(data):
            for message in decode_server_messages(frame):
                storage.handle(message)
                if type(message) is SnapshotEnd:
                    self.is_starting = False
        if storage._readers and not self.is_starting:
            storage.wake_readers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._storage.lose(self)
