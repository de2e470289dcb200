"""`StorageServer`: lets other processes use a memory or SQLite storage of this process.

    async with MemoryStorage() as storage:
        server = StorageServer(storage, directory)
        await server.start()

A client (`SocketStorage`) has a complete copy of the state. It first receives the state at the oldest
readable revision, then every event after it, in order. Writes are requests; the result of a write is sent
after its event, so that a writer reads its own write from its copy.

The server publishes the current revision in shared memory (`SharedRevision`) as part of each write, before
the writer of any process receives its result. A client reads it without a system call and knows whether its
copy is current.

Events are encoded once for all clients. A client that does not read them is paused: it continues from the
history, or with a new snapshot if the history does not reach back far enough. Memory is bounded either way.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kubewright.storage.contract import Compacted, KeyValue, StorageEvent

from .messages import (
    AnyRequest,
    Compact,
    Compaction,
    Create,
    Delete,
    Failure,
    FrameReader,
    Result,
    ServerMessage,
    Snapshot,
    SnapshotEnd,
    Update,
    decode_requests,
    encode_frame,
    to_events,
)
from .shared_revision import SharedRevision

if TYPE_CHECKING:
    from kubewright.storage.local import LocalStorage

logger = logging.getLogger("kubewright.storage")

SOCKET_NAME = "storage.sock"
REVISION_NAME = "revision"
"""Names of the files in the directory of a server."""

_BUFFER_LIMIT = 4 * 1024 * 1024
"""Bytes that wait to be sent to a client before it is paused."""
_SNAPSHOT_BYTES = 256 * 1024
_CATCH_UP_EVENTS = 200
"""Sizes of the parts of a snapshot, and of the history that a paused client receives."""


class StorageServer:
    """Serves `storage`, which is open, on a socket in `directory`.

    Every process that can open the socket can read and write everything: the directory must be accessible to
    its owner only.
    """

    prefix = ""

    def __init__(self, storage: LocalStorage, directory: Path) -> None:
        if directory.stat().st_mode & 0o077:
            raise ValueError(f"{directory} is accessible to other users; set its mode to 0700")
        self.storage = storage
        self.path = directory / SOCKET_NAME
        self._keyspace = storage.keyspace
        self._revision_path = directory / REVISION_NAME
        self._revision: SharedRevision | None = None
        self._cell: memoryview[int]
        self._connections: set[_Connection] = set()
        self._events: list[StorageEvent] = []
        self._is_flush_due = False
        self._loop: asyncio.AbstractEventLoop
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Start to listen."""
        self._loop = asyncio.get_running_loop()
        self._revision = SharedRevision(self._revision_path, create=True)
        self._cell = self._revision.cell
        self._cell[0] = self._keyspace.revision
        self._keyspace.register(self)
        self._server = await self._loop.create_unix_server(lambda: _Connection(self), str(self.path))

    def close(self) -> None:
        """Stop to listen and close all connections."""
        if self._server is None or self._revision is None:
            return
        self._server.close()
        self._server = None
        self._keyspace.unregister(self)
        for connection in list(self._connections):
            connection.close()
        self.path.unlink(missing_ok=True)
        self._revision_path.unlink(missing_ok=True)
        self._cell.release()
        self._revision.close()
        self._revision = None

    def offer(self, event: StorageEvent) -> None:
        """Publish the revision of a write, and send its event in the next flush."""
        self._cell[0] = event.revision
        if self._connections:
            self._events.append(event)
            self.flush_soon()

    def flush_soon(self) -> None:
        """Send events and results in the next iteration of the event loop."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        events, self._events = self._events, []
        frame = encode_frame([to_events(events)]) if events else bytearray()
        revision = events[-1].revision if events else 0
        for connection in self._connections:
            connection.send(frame, revision)

    def connected(self, connection: _Connection) -> None:
        """Add a client."""
        self._connections.add(connection)

    def disconnected(self, connection: _Connection) -> None:
        """Remove a client."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, server: StorageServer) -> None:
        self._server = server
        self._storage = server.storage
        self._keyspace = server.storage.keyspace
        self._reader = FrameReader()
        self._transport: asyncio.Transport
        self._results: list[ServerMessage] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._position = 0
        """The revision of the last event that was sent."""
        self._is_current = False
        """Whether the client has everything but the events of the next flush."""
        self._is_paused = False
        self._history = (0, 0)
        """The compacted revision and the oldest list that the client knows."""
        self._snapshot: asyncio.Task[None] | None = None
        self._resumed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the state at the oldest revision; the history follows."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_BUFFER_LIMIT)
        self._server.connected(self)
        self._start_snapshot(self._keyspace.compacted)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client; its writes continue."""
        self._server.disconnected(self)
        if self._snapshot is not None:
            self._snapshot.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._server.disconnected(self)
        self._transport.close()

    def pause_writing(self) -> None:
        """Send nothing until the client has read more."""
        self._is_paused = True
        self._resumed.clear()

    def resume_writing(self) -> None:
        """Continue with what was not sent."""
        self._is_paused = False
        self._resumed.set()
        if self._snapshot is None:
            self._catch_up()

    def data_received(self, data: bytes) -> None:
        """Start the requests in their order."""
        for frame in self._reader.feed(data):
            for request in decode_requests(frame):
                task = asyncio.create_task(self._handle(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _handle(self, request: AnyRequest) -> None:
        result: ServerMessage
        try:
            result = Result(request.number, await self._apply(request))
        except Exception as error:
            result = Failure.of(request.number, error)
        self._results.append(result)
        self._server.flush_soon()

    async def _apply(self, request: AnyRequest) -> int:
        storage = self._storage
        match request:
            case Create():
                return await storage.create(request.key, request.value, ttl=request.ttl)
            case Update():
                return await storage.update(
                    request.key, request.value, expected=request.expected, ttl=request.ttl
                )
            case Delete():
                return await storage.delete(request.key, expected=request.expected)
            case Compact():
                await storage.compact(request.revision)
                return request.revision
        size = await storage.size()
        return -1 if size is None else size

    def send(self, frame: bytearray, revision: int) -> None:
        """Send the events up to `revision` (an empty frame: none), then the results of requests."""
        if self._is_current and not self._is_paused:
            if revision:
                self._position = revision
            rest = self._encode_rest()
            if frame or rest:
                self._transport.write(frame + rest if rest else frame)
        elif frame:
            self._is_current = False

    def _encode_rest(self) -> bytearray:
        """Return what follows the events: changes of the history, and results."""
        messages, self._results = self._results, []
        history = (self._keyspace.compacted, self._keyspace.oldest_list)
        if history != self._history:
            self._history = history
            messages.insert(0, Compaction(*history))
        return encode_frame(messages) if messages else bytearray()

    def _write(self, *messages: ServerMessage) -> bool:
        """Send messages; returns whether the client has read enough to send more."""
        self._transport.write(encode_frame(messages))
        return not self._is_paused

    def _catch_up(self) -> None:
        """Send the events since the last one, from the history, until the client does not read them."""
        while True:
            try:
                events = self._keyspace.events_after(self._position, "")
            except Compacted:
                self._start_snapshot(self._keyspace.revision)
                return
            if not events:
                self._is_current = True
                self.send(bytearray(), 0)
                return
            for at in range(0, len(events), _CATCH_UP_EVENTS):
                part = events[at : at + _CATCH_UP_EVENTS]
                self._position = part[-1].revision
                if not self._write(to_events(part)):
                    return

    def _start_snapshot(self, revision: int) -> None:
        self._is_current = False
        self._snapshot = asyncio.create_task(self._send_snapshot(revision), name="storage snapshot")

    async def _send_snapshot(self, revision: int) -> None:
        # A list at revision 0 is the current one, but the state at revision 0 is empty.
        items = self._keyspace.range("", None, 0, revision).items if revision else []
        part: list[KeyValue] = []
        size = 0
        for item in items:
            part.append(item)
            size += len(item.key) + len(item.value)
            if size >= _SNAPSHOT_BYTES:
                if not self._write(Snapshot(part)):
                    await self._resumed.wait()
                part, size = [], 0
                await asyncio.sleep(0)
        self._write(Snapshot(part), SnapshotEnd(revision))
        self._position = revision
        self._history = (revision, revision)
        self._snapshot = None
        if not self._is_paused:
            self._catch_up()
