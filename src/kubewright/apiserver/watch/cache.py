"""Watch cache: the recent events of one resource, and its watchers.

The `EventDispatcher` adds each storage event to the `WatchCache` of its resource. The cache keeps a window of
recent events, for watches that start at an older resource version, and the watchers, indexed by namespace and
name. A `Watcher` is the stream of one client: a bounded queue of encoded events. An event is encoded once per
representation and shared by all watchers of it.

A watcher whose queue overflows is terminated; other watchers are not affected. Timeouts and bookmarks of all
watchers share one timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError, Expired
from kubewright.apiserver.encoding.representation import Representation
from kubewright.storage.contract import StorageEvent

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.objects import Object
    from kubewright.apiserver.rest.selection import Selection

    from .dispatcher import EventDispatcher

logger = logging.getLogger("kubewright.apiserver")

WINDOW = 4096
WINDOW_BYTES = 8 * 1024 * 1024
"""Maximum number of events in the window, and of bytes of their objects."""
WINDOW_SECONDS = 90.0
WINDOW_LEAST = 100
"""How long events stay in the window, and how many stay longer."""
QUEUE_EVENTS = 10_000
QUEUE_BYTES = 64 * 1024 * 1024
"""Limits of the queue of one watcher; above them it is terminated."""
_CHUNK = 512


class WatchCacheEvent:
    """One event, with its encoded forms and selectable fields."""

    __slots__ = ("_new", "_old", "at", "encoded", "event", "name", "namespace", "type")

    def __init__(self, event: StorageEvent, namespace: str, name: str, at: float) -> None:
        self.event = event
        self.at = at
        self.namespace = namespace
        self.name = name
        if event.type == "delete":
            self.type = "DELETED"
        else:
            self.type = "ADDED" if event.previous is None else "MODIFIED"
        self.encoded: dict[tuple[Representation, str], bytes] = {}
        self._new: Any = None
        self._old: Any = None

    @property
    def size(self) -> int:
        """Bytes of the objects of the event."""
        previous = self.event.previous
        return len(self.event.value or b"") + (len(previous.value) if previous is not None else 0)

    def release_encoded(self) -> None:
        """Discard encoded forms: all watchers have received them."""
        self.encoded.clear()
        self._new = self._old = None

    def selected(self, selection: Selection, representation: Representation) -> str:
        """Return the event type for a selection; empty if it does not match."""
        event = self.event
        now = before = False
        if event.value is not None:
            if self._new is None:
                self._new = selection.selectable(event.value)
            now = selection.matches(self._new)
        if event.previous is not None:
            if self._old is None:
                self._old = selection.selectable(event.previous.value)
            before = selection.matches(self._old)
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    async def selected_in_version(self, selection: Selection, representation: Representation) -> str:
        """Return the event type for a selection of converted objects; empty if it does not match."""
        event = self.event
        previous = event.previous
        now = (
            event.value is not None
            and (await representation.select([(event.value, event.revision)], selection))[0]
        )
        before = (
            previous is not None
            and (await representation.select([(previous.value, previous.mod_revision)], selection))[0]
        )
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def source(self, type_: str) -> bytes:
        """Return the stored object that an event of this type contains: the new one, or the deleted one."""
        event = self.event
        if type_ == "DELETED" and event.previous is not None:
            return event.previous.value
        assert event.value is not None
        return event.value

    def bytes_for(self, representation: Representation, type_: str) -> bytes:
        """Return the encoded event, shared by all watchers of a representation."""
        key = (representation, type_)
        found = self.encoded.get(key)
        if found is None:
            source, revision = self.source(type_), self.event.revision
            if representation.direct:
                spliced = representation.splice(source, revision)
                if spliced is not None:
                    found = b'{"type":"%b","object":%b}\n' % (type_.encode(), spliced)
            if found is None:
                obj = representation.objects([(source, revision)])[0]
                found = representation.event(type_, obj)
            self.encoded[key] = found
        return found


class Watcher(AsyncIterator[bytes]):
    """The stream of one client: an iterator of chunks of encoded events; `aclose()` after a disconnect."""

    __slots__ = (
        "_bytes",
        "_closed",
        "_first",
        "_held",
        "_initial",
        "_initial_done",
        "_overrun",
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
        self._overrun = False
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def offer(self, change: WatchCacheEvent) -> None:
        """Queue an event if it matches this watcher."""
        if self._held is not None:
            self._hold(change)
            return
        if change.event.revision <= self.after or self._closed:
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

    def send_initial(self, events: AsyncGenerator[list[bytes]], done: Callable[[], object]) -> None:
        """Send initial events before all others, as fast as the client reads them; then `release`.

        `done` is called once: after the last of them, or when the watch ends.
        """
        self._initial, self._initial_done = events, done

    @property
    def sending_initial_events(self) -> bool:
        """Whether initial events are being read and sent one after the other."""
        return self._initial is not None

    async def _next_initial(self) -> bytes:
        """Return the next initial events; empty after the last of them."""
        assert self._initial is not None
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
        events, self._initial = self._initial, None
        if self._initial_done is not None:
            self._initial_done()
            self._initial_done = None
        if events is not None:
            await events.aclose()

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
            if self._initial is not None:
                if self._closed:
                    await self._end_initial()
                else:
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


class WatchCache:
    """The recent events and the watchers of one resource."""

    def __init__(
        self,
        dispatcher: EventDispatcher,
        resource: GroupResource,
        prefix: str,
        *,
        namespaced: bool,
        bookmark_interval: float = 60.0,
    ) -> None:
        self.dispatcher = dispatcher
        self.resource = resource
        self.prefix = prefix
        self.namespaced = namespaced
        self.bookmark_interval = bookmark_interval
        self.oldest = 0
        """Events after this revision are in the window."""
        self.received = 0
        """Events received from storage."""
        self.sent: Counter[str] = Counter()
        """Events sent to clients, by version."""
        self.dropped = 0
        """Watches terminated because the client did not read."""
        self.active = 0
        self.on_count: Callable[[int], object] | None = None
        self.undecodable = 0
        """Events that a watch skipped because the stored value cannot be decoded."""
        self._window: deque[WatchCacheEvent] = deque()
        self._window_bytes = 0
        self._watchers: dict[tuple[str, str], dict[Watcher, None]] = {}
        self._conversions: asyncio.Queue[tuple[Watcher, WatchCacheEvent, str]] | None = None
        self._converter: asyncio.Task[None] | None = None
        self._ended = False
        dispatcher.register(self)

    def reset(self, revision: int) -> None:
        """Clear the window; events after `revision` follow."""
        self._window.clear()
        self._window_bytes = 0
        self.oldest = revision

    def add_event(self, event: StorageEvent) -> None:
        """Add an event to the window and queue it for matching watchers."""
        rest = event.key[len(self.prefix) :]
        namespace, _, name = rest.rpartition("/") if self.namespaced else ("", "", rest)
        change = WatchCacheEvent(event, namespace, name, self.dispatcher.clock())
        self.received += 1
        self._append(change)
        for observer in self.dispatcher.listeners:
            observer.on_event(self, change)
        watchers = self._watchers
        if watchers:
            for scope in (
                (("", ""), (namespace, ""), (namespace, name), ("", name))
                if namespace
                else (
                    ("", ""),
                    ("", name),
                )
            ):
                group = watchers.get(scope)
                if group:
                    for watcher in list(group):
                        watcher.offer(change)
            if not self._converting:
                change.release_encoded()

    def load(self, events: Iterable[StorageEvent], revision: int) -> None:
        """Fill the window with the events after `revision`; watchers and listeners do not receive them."""
        self.reset(revision)
        for event in events:
            rest = event.key[len(self.prefix) :]
            namespace, _, name = rest.rpartition("/") if self.namespaced else ("", "", rest)
            self._append(WatchCacheEvent(event, namespace, name, self.dispatcher.clock()))

    def _append(self, change: WatchCacheEvent) -> None:
        window = self._window
        window.append(change)
        self._window_bytes += change.size
        stale = change.at - WINDOW_SECONDS
        while (
            len(window) > WINDOW
            or (self._window_bytes > WINDOW_BYTES and len(window) > 1)
            or (window[0].at < stale and len(window) > WINDOW_LEAST)
        ):
            first = window.popleft()
            self._window_bytes -= first.size
            self.oldest = first.event.revision

    def skip(self, change: WatchCacheEvent) -> None:
        """Leave out a change whose value cannot be decoded, and go on with the next."""
        self.undecodable += 1
        if self.undecodable in (1, 10, 100) or self.undecodable % 1000 == 0:
            logger.exception(
                "stored object cannot be decoded; skipping its event",
                extra={"key": change.event.key, "revision": change.event.revision},
            )

    def attach(self, watcher: Watcher) -> None:
        """Add a watcher: it gets what the window holds after its version, then everything new.

        A watcher that holds changes back gets only those from now on.
        """
        if self._ended:
            watcher.close()
            return
        namespace, name = watcher.scope
        window = self._window
        if not watcher.holding and window and window[-1].event.revision > watcher.after:
            for change in window:
                if (
                    change.event.revision > watcher.after
                    and (not namespace or change.namespace == namespace)
                    and (not name or change.name == name)
                ):
                    watcher.offer(change)
                    if not self._converting:
                        change.release_encoded()
        self._watchers.setdefault(watcher.scope, {})[watcher] = None
        self.active += 1
        if self.on_count is not None:
            self.on_count(1)
        self.dispatcher.timer.schedule(watcher, watcher.next_due(self.dispatcher.clock()))

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        group = self._watchers.get(watcher.scope)
        if group is not None and watcher in group:
            del group[watcher]
            if not group:
                del self._watchers[watcher.scope]
            self.active -= 1
            self.dispatcher.timer.remove(watcher)
            if self.on_count is not None:
                self.on_count(-1)

    def interested(self, namespace: str, name: str) -> int:
        """Return the number of watchers that get events of an object; without a name, of a new object."""
        scopes = {("", ""), (namespace, ""), (namespace, name), ("", name)}
        return sum(len(self._watchers.get(scope, ())) for scope in scopes)

    def check_window(self, revision: int) -> None:
        """Raise `Expired` if the window does not reach back to `revision`."""
        if revision < self.oldest:
            raise Expired(f"too old resource version: {revision} ({self.oldest})")

    def close_watchers(self) -> None:
        """End every watch cleanly."""
        for group in list(self._watchers.values()):
            for watcher in list(group):
                watcher.close()

    def stop(self) -> None:
        """End all watches: the resource is no longer served."""
        self._ended = True
        self.close_watchers()
        self._window.clear()
        self.dispatcher.unregister(self)
        if self._converter is not None:
            self._converter.cancel()

    @property
    def _converting(self) -> bool:
        """Whether events are waiting for an async conversion."""
        return self._conversions is not None and not self._conversions.empty()

    def convert_later(self, watcher: Watcher, change: WatchCacheEvent, type_: str) -> None:
        """Queue an event for a watcher whose version needs an async conversion; the order is kept.

        An empty type is for a watcher whose selection has to be evaluated after the conversion.
        """
        if self._conversions is None:
            self._conversions = asyncio.Queue()
            self._converter = asyncio.create_task(self._convert())
        self._conversions.put_nowait((watcher, change, type_))

    async def _convert(self) -> None:
        assert self._conversions is not None
        while True:
            watcher, change, type_ = await self._conversions.get()
            representation = watcher.representation
            try:
                if not type_ and watcher.selection is not None:
                    type_ = await change.selected_in_version(watcher.selection, representation)
                    if not type_:
                        continue
                key = (representation, type_)
                source = change.source(type_)
                if representation.direct and representation.splice(source, change.event.revision):
                    change.bytes_for(representation, type_)
                elif key not in change.encoded or representation.per_watcher:
                    items = [(source, change.event.revision)]
                    obj = (await representation.objects_async(items))[0]
                    if representation.per_watcher:
                        watcher.push(watcher.encode_object(type_, obj))
                        continue
                    change.encoded[key] = representation.event(type_, obj)
                watcher.push(change.encoded[key])
            except APIError as error:
                watcher.fail(error)
            except Exception:
                self.skip(change)
            finally:
                if self._conversions.empty():
                    change.release_encoded()
