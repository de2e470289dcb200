"""Watch cache: the recent events of one resource, and its watchers.

The `EventDispatcher` adds each storage event to the `WatchCache` of its resource. The cache keeps a window of
recent events, for watches that start at an older resource version, and the watchers, indexed by namespace and
name. Timeouts and bookmarks of all watchers share one timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kubewright.api.errors import APIError, Expired
from kubewright.background import run_forever
from kubewright.storage.contract import StorageEvent

from .event import WatchCacheEvent

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.resources.stored_objects import StoredObjects

    from .dispatcher import EventDispatcher
    from .watcher import Watcher

logger = logging.getLogger("kubewright.apiserver")

WINDOW = 4096
WINDOW_BYTES = 8 * 1024 * 1024
"""Maximum number of events in the window, and of bytes of their objects."""
WINDOW_SECONDS = 90.0
WINDOW_LEAST = 100
"""How long events stay in the window, and how many stay longer."""
INDEXED_FIELDS = {"pods": "spec.nodeName"}
"""Resources with many watchers of which few get an event: those that select one value of this field."""


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
        self.objects: StoredObjects | None = None
        """Checks the values of events."""
        self.skipped = 0
        """Events that could not be encoded for a watch."""
        self._window: deque[WatchCacheEvent] = deque()
        self._window_bytes = 0
        self._watchers: dict[tuple[str, str], dict[Watcher, None]] = {}
        self._indexed: Counter[tuple[str, str]] = Counter()
        """Watchers of each scope that select one value of the indexed field."""
        self._conversions: asyncio.Queue[tuple[Watcher, WatchCacheEvent, str]] | None = None
        self._converter: asyncio.Task[None] | None = None
        self._ended = False
        dispatcher.register(self)

    def reset(self, revision: int) -> None:
        """Clear the window; events after `revision` follow."""
        self._window.clear()
        self._window_bytes = 0
        self.oldest = revision
        if self.objects is not None:
            self.objects.reset(revision)

    def add_event(self, event: StorageEvent) -> None:
        """Add an event to the window and queue it for matching watchers."""
        rest = event.key[len(self.prefix) :]
        namespace, _, name = rest.rpartition("/") if self.namespaced else ("", "", rest)
        change = WatchCacheEvent(event, namespace, name, self.dispatcher.clock())
        if self.objects is not None:
            change.error = self.objects.check_event(event)
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
            change = WatchCacheEvent(event, namespace, name, self.dispatcher.clock())
            if self.objects is not None:
                change.error = self.objects.check_event(event)
            self._append(change)

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
        """Leave out a change that cannot be encoded, and go on with the next."""
        self.skipped += 1
        if self.skipped in (1, 10, 100) or self.skipped % 1000 == 0:
            logger.exception(
                "event cannot be encoded; skipping it",
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
        if self._is_indexed(watcher):
            self._indexed[watcher.scope] += 1
        self.active += 1
        if self.on_count is not None:
            self.on_count(1)
        self.dispatcher.timer.schedule(watcher, watcher.next_due(self.dispatcher.clock()))

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        group = self._watchers.get(watcher.scope)
        if group is not None and watcher in group:
            del group[watcher]
            if self._is_indexed(watcher):
                self._indexed[watcher.scope] -= 1
            if not group:
                del self._watchers[watcher.scope]
                self._indexed.pop(watcher.scope, None)
            self.active -= 1
            self.dispatcher.timer.remove(watcher)
            if self.on_count is not None:
                self.on_count(-1)

    def interested(self, namespace: str, name: str) -> int:
        """Return the number of watchers that get events of an object; without a name, of a new object.

        As in kube-apiserver, those that select one value of the indexed field are not counted.
        """
        scopes = {("", ""), (namespace, ""), (namespace, name), ("", name)}
        return sum(len(self._watchers.get(scope, ())) - self._indexed[scope] for scope in scopes)

    def _is_indexed(self, watcher: Watcher) -> bool:
        field = INDEXED_FIELDS.get(self.resource.resource)
        fields = watcher.selection.fields if field and watcher.selection is not None else None
        return bool(field and fields is not None and fields.exact(field))

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
            self._converter = run_forever(self._convert, name=f"conversion of {self.prefix}")
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
