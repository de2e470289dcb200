"""`Watcher`: the stream of one client, a bounded queue of encoded events.

A watcher whose queue overflows is terminated; other watchers are not affected. While the initial state is
read, events are held back and offered afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Expired
from kubewright.apiserver.encoding.representation import Representation
from kubewright.apiserver.resources.stored_objects import UndecodableObject, UndecodableObjects

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.rest.selection import Selection

    from .cache import WatchCache
    from .event import WatchCacheEvent

logger = logging.getLogger("kubewright.apiserver")

QUEUE_EVENTS = 10_000
QUEUE_BYTES = 64 * 1024 * 1024
"""Limits of the queue of one watcher; above them it is terminated."""
_CHUNK = 512


class Watcher(AsyncIterator[bytes]):
    """The stream of one client: an iterator of chunks of encoded events; `aclose()` after a disconnect."""

    __slots__ = (
        "_bytes",
        "_closed",
        "_first",
        "_held",
        "_initial",
        "_initial_done",
        "_initial_queued",
        "_overrun",
        "_starting",
        "_waiter",
        "abort",
        "after",
        "bookmarks",
        "cache",
        "deadline",
        "dropped",
        "pending",
        "representation",
        "scope",
        "selection",
        "slot",
    )

    def __init__(
        self,
        cache: WatchCache,
        representation: Representation,
        *,
        namespace: str = "",
        name: str = "",
        selection: Selection | None = None,
        after: int = 0,
        deadline: float = 0.0,
        bookmarks: bool = False,
    ) -> None:
        self.cache = cache
        self.representation = representation
        self.scope = (namespace, name)
        self.selection = selection
        self.after = after
        self.deadline = deadline
        self.bookmarks = bookmarks
        self.pending: list[bytes] = []
        self.dropped = False
        self.slot = 0
        """The slot of the timer."""
        self.abort: Callable[[], object] | None = None
        """Set by the transport: closes the connection of a client that does not read."""
        self._bytes = 0
        self._first = True
        self._held: list[WatchCacheEvent] | None = None
        self._initial: AsyncGenerator[list[bytes]] | None = None
        self._initial_done: Callable[[], object] | None = None
        self._initial_queued = 0
        """Initial events among those that are queued."""
        self._overrun = False
        self._starting = False
        """Whether initial events have not been sent yet while a request waits for that."""
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def offer(self, change: WatchCacheEvent) -> None:
        """Queue an event if it matches this watcher."""
        if self._held is not None:
            self._hold(change)
            return
        if change.event.revision <= self.after or self._closed:
            return
        undecodable = change.error
        if undecodable is not None:
            # Whether a selection includes the object is not known.
            if isinstance(undecodable, UndecodableObject):
                undecodable = UndecodableObjects(self.cache.resource, [undecodable])  # clients list again
            self.fail(undecodable)
            return
        selection = self.selection
        if selection is not None and selection.converts:
            self.cache.convert_later(self, change, "")
            return
        try:
            type_ = change.type if selection is None else change.selected(selection, self.representation)
        except Exception:
            self.cache.skip(change)
            return
        if not type_:
            return
        representation = self.representation
        if representation.awaits:
            self.cache.convert_later(self, change, type_)
            return
        try:
            if representation.per_watcher and self._first:
                self._first = False
                obj = representation.objects([(change.source(type_), change.event.revision)])[0]
                chunk = representation.event(type_, obj, first=True)
            else:
                chunk = change.bytes_for(representation, type_)
        except APIError as error:
            self.fail(error)
            return
        except Exception:
            self.cache.skip(change)
            return
        self.push(chunk)

    def hold(self) -> None:
        """Keep changes back until `release`: the initial state is being read, and `after` is not known."""
        self._held = []

    def _hold(self, change: WatchCacheEvent) -> None:
        assert self._held is not None
        self._held.append(change)
        self._bytes += change.size
        if len(self._held) > QUEUE_EVENTS or self._bytes > QUEUE_BYTES:
            self._held = []
            self._bytes = 0
            self._overrun = True

    def release(self) -> None:
        """Offer the changes that were kept back, and every later one immediately."""
        held, self._held = self._held or [], None
        self._bytes = 0
        if self._overrun:
            self.pending.clear()
            self.fail(Expired("too many changes while the initial state was read; list again"))
            return
        for change in held:
            self.offer(change)

    def encode_object(self, type_: str, obj: Object) -> bytes:
        """Encode an event of a decoded object for this stream."""
        first, self._first = self._first, False
        return self.representation.event(type_, obj, first=first and self.representation.per_watcher)

    def push(self, chunk: bytes) -> None:
        """Queue an encoded event; a full queue terminates the watch."""
        self.pending.append(chunk)
        self._bytes += len(chunk)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        elif len(self.pending) > QUEUE_EVENTS or self._bytes > QUEUE_BYTES:
            self._drop()

    def push_initial(self, chunks: list[bytes]) -> None:
        """Queue initial events, which do not count towards the limit."""
        self.pending.extend(chunks)

    def send_initial(self, events: AsyncGenerator[list[bytes]], done: Callable[[], object] | None) -> None:
        """Send initial events before all others, as fast as the client reads them; then `release`.

        `done` is called once: after the last of them has been sent, or when the watch ends.
        """
        self._initial, self._initial_done, self._starting = events, done, True

    def call_when_sent(self, done: Callable[[], object]) -> None:
        """Call a function once: when all events that are queued now have been sent, or the watch ends."""
        if self._closed or not self.pending:
            done()
        else:
            self._initial_done, self._initial_queued, self._starting = done, len(self.pending), True

    @property
    def sending_initial_events(self) -> bool:
        """Whether initial events are being sent."""
        return self._starting

    async def _next_initial(self) -> bytes:
        """Return the next initial events; empty after the last of them, and if they are queued.

        The transport calls this when it has written the previous ones and the client has read most of them.
        """
        if self._closed:
            await self._end_initial()
            return b""
        if self._initial is None:
            if self._initial_queued > 0:
                self._initial_queued -= _CHUNK
            else:
                self._call_done()
            return b""
        try:
            if not self._overrun:
                chunks = await anext(self._initial)
                self.cache.sent[self.representation.version.name] += len(chunks)
                return b"".join(chunks)
        except StopAsyncIteration:
            pass
        except Exception as error:
            self._held = None
            self.fail(error)
        await self._end_initial()
        if not self._closed:
            self.release()
        return b""

    async def _end_initial(self) -> None:
        self._call_done()
        events, self._initial = self._initial, None
        if events is not None:
            await events.aclose()

    def _call_done(self) -> None:
        done, self._initial_done, self._starting = self._initial_done, None, False
        if done is not None:
            done()

    def fail(self, error: Exception) -> None:
        """Send an ERROR event and end."""
        if not isinstance(error, APIError):
            from kubewright.api.errors import InternalError

            logger.warning("watch failed", extra={"error": str(error)})
            error = InternalError(f"Internal error occurred: {error}")
        self.push(self.representation.frame({"type": "ERROR", "object": error.to_status()}))
        self.close()

    def _drop(self) -> None:
        self.dropped = True
        self.pending.clear()
        self.cache.dropped += 1
        self.close()
        if self.abort is not None:
            self.abort()

    @property
    def holding(self) -> bool:
        """Whether changes are kept back until `release`."""
        return self._held is not None

    def close(self) -> None:
        """End the stream after the queued events."""
        if not self._closed:
            self._closed = True
            self.cache.remove(self)
            waiter, self._waiter = self._waiter, None
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
            if self._initial_done is not None:
                self._initial_done()
                self._initial_done = None

    def due(self, now: float) -> float:
        """Called by the timer: end the watch or send a bookmark. Returns the time of the next call; 0 for
        none."""
        if self._closed:
            return 0.0
        if self.deadline <= now:
            self.close()
            return 0.0
        if self.bookmarks and self._held is None:
            self.push(self.representation.bookmark(max(self.cache.dispatcher.revision, self.after)))
        return self.next_due(now)

    def next_due(self, now: float) -> float:
        """Return the time of the next call: bookmarks at an interval and shortly before the end, then the
        end."""
        if not self.bookmarks:
            return self.deadline
        if self.deadline - now > self.cache.bookmark_interval + 2:
            return now + self.cache.bookmark_interval
        return self.deadline - 2 if self.deadline - now > 2.5 else self.deadline

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._starting:
                chunk = await self._next_initial()
                if chunk:
                    return chunk
            pending = self.pending
            if pending:
                self.cache.sent[self.representation.version.name] += min(len(pending), _CHUNK)
                if len(pending) == 1:
                    chunk = pending[0]
                    pending.clear()
                elif len(pending) <= _CHUNK:
                    chunk = b"".join(pending)
                    pending.clear()
                else:
                    chunk = b"".join(pending[:_CHUNK])
                    del pending[:_CHUNK]
                self._bytes = max(self._bytes - len(chunk), 0)
                return chunk
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def aclose(self) -> None:
        """Discard queued events and end the watch."""
        self.pending.clear()
        self.close()
        await self._end_initial()
