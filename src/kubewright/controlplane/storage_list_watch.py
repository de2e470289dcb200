"""`StorageListWatch`: lists and watches of one resource in the storage of this process, for an informer.

Changes come from the server's own watch on storage, synchronously: when the dispatcher has reached a
revision, the informer contains it. Changes that arrive between the beginning of a list and its watch are
recorded. After a loss of the watch on storage the resource is listed again as soon as there is a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from kubewright.api.encoding.codec import ObjectHeader, decoder
from kubewright.api.errors import Expired
from kubewright.apiserver.resources.stored_objects import UndecodableObject
from kubewright.client.errors import ConnectionFailed
from kubewright.storage.contract import StorageError

if TYPE_CHECKING:
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.watch.dispatcher import EventDispatcher
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.cache.reflectors.lister_watcher import WatchReceiver
    from kubewright.storage.contract import Page

_decode_header = decoder(ObjectHeader).decode


class StoredVersion:
    """One version of a stored object; an `ObjectEvent`."""

    __slots__ = ("error", "name", "namespace", "raw", "revision", "type")

    def __init__(
        self,
        type_: str,
        namespace: str,
        name: str,
        raw: bytes,
        revision: int,
        error: UndecodableObject | None = None,
    ) -> None:
        self.type = type_
        self.namespace = namespace
        self.name = name
        self.raw = raw
        self.revision = revision
        self.error = error

    @property
    def resource_version(self) -> str:
        """The revision as text."""
        return str(self.revision)

    @property
    def header(self) -> ObjectHeader:
        """apiVersion, kind and metadata; stored objects do not contain their resourceVersion."""
        header = _decode_header(self.raw)
        header.metadata.resource_version = self.resource_version
        return header


class StoredPage:
    """All objects of a resource; an `ObjectPage`."""

    continue_ = ""

    def __init__(self, page: Page, errors: Sequence[UndecodableObject], prefix: str) -> None:
        self.resource_version = str(page.revision)
        self._items = page.items
        self._errors = {error.key: error for error in errors}
        self._prefix = len(prefix)

    def events(self) -> Iterator[StoredVersion]:
        """Yield the objects; keys of namespaced ones contain the namespace."""
        for item in self._items:
            namespace, _, name = item.key[self._prefix :].rpartition("/")
            error = self._errors.get(item.key)
            yield StoredVersion("ADDED", namespace, name, item.value, item.mod_revision, error)


class StorageListWatch:
    """A `ListerWatcher` of one resource; its owner forwards the calls of an `EventListener`."""

    def __init__(self, dispatcher: EventDispatcher, store: ResourceStore) -> None:
        self.store = store
        """Replaced when a definition changes; the keys stay."""
        self._dispatcher = dispatcher
        self._reconnected: asyncio.Event | None = None
        """Set when there is a new watch on storage; `None` while it is not interrupted."""
        self._recorded: list[StoredVersion] | None = None
        """Changes since the beginning of the last list; `None` if some are missing."""
        self.receiver: WatchReceiver | None = None
        self._watch: _StorageWatch | None = None
        self._lost: _StorageWatch | None = None
        """The watch that ends when there is a new watch on storage."""
        self._requested: set[int] = set()

    @property
    def has_delivered_writes(self) -> bool:
        """Whether every write through this server has been dispatched."""
        return self.store.written <= self._dispatcher.revision

    def request_progress(self, revision: int) -> None:
        """Report progress as soon as the dispatcher has reached a revision."""
        if revision <= self._dispatcher.revision:
            self._report_progress()
        elif revision not in self._requested:
            self._requested.add(revision)
            self._dispatcher.call_at(revision, self._revision_reached)

    def _revision_reached(self, revision: int) -> None:
        self._requested.discard(revision)
        self._report_progress()

    def _report_progress(self) -> None:
        if self._watch is not None:
            self._watch.receive(StoredVersion("BOOKMARK", "", "", b"", self._dispatcher.revision))

    async def list(self, *, limit: int, continue_: str) -> StoredPage:
        """Return all objects in one page, when the watch on storage is connected."""
        while True:
            if self._reconnected is not None:
                await self._reconnected.wait()
            self._watch = None
            recorded = self._recorded = []
            try:
                page, errors = await self.store.storage.list_stored(self.store.prefix)
            except StorageError as error:
                raise ConnectionFailed(f"cannot read from storage: {error}") from error
            if self._recorded is recorded:
                return StoredPage(page, errors, self.store.prefix)

    async def watch(
        self, *, resource_version: str, initial_events: bool, timeout_seconds: int, idle_timeout: float
    ) -> _StorageWatch:
        """Watch changes after the last list."""
        recorded, self._recorded = self._recorded, None
        if recorded is None:
            raise Expired("the watch on storage was lost")
        self._watch = watch = _StorageWatch(self, recorded, int(resource_version))
        return watch

    def close(self, watch: _StorageWatch) -> None:
        """Stop delivering to a watch."""
        if self._watch is watch:
            self._watch = None

    # Calls of the dispatcher

    def on_event(self, change: WatchCacheEvent) -> None:
        """An object was written or deleted."""
        event, error = change.event, change.error
        value, previous = event.value, event.previous
        if value is None:
            # The last value may be one that could not be decoded.
            value = previous.value if previous is not None and error is None else b""
        version = StoredVersion(
            change.type,
            change.namespace,
            change.name,
            value,
            event.revision,
            error if isinstance(error, UndecodableObject) else None,
        )
        if self._watch is not None:
            self._watch.receive(version)
        elif self._recorded is not None:
            self._recorded.append(version)

    def on_watch_lost(self) -> None:
        """Events may be missing from now on."""
        if self._reconnected is None:
            self._reconnected = asyncio.Event()
        self._recorded = None
        if self._watch is not None:
            self._lost, self._watch = self._watch, None
        if self.receiver is not None:
            self.receiver.lose()

    def on_watch_restarted(self) -> None:
        """There is a new watch on storage: list again."""
        if self._reconnected is not None:
            self._reconnected.set()
            self._reconnected = None
        if self._lost is not None:
            self._lost.end()
            self._lost = None


class _StorageWatch:
    """An open watch; an `ObjectWatch`."""

    def __init__(self, source: StorageListWatch, recorded: Sequence[StoredVersion], since: int) -> None:
        self._source = source
        self._recorded = [each for each in recorded if each.revision > since]
        self._since = since
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def deliver(self, receiver: WatchReceiver) -> None:
        """Deliver changes until the watch on storage is lost."""
        self._source.receiver = receiver
        receiver.receive(self._recorded)
        self._recorded = []
        await self._ended
        raise Expired("the watch on storage was lost")

    def end(self) -> None:
        """End the watch; it may have been cancelled."""
        if not self._ended.done():
            self._ended.set_result(None)

    def receive(self, version: StoredVersion) -> None:
        """Deliver one change, unless the list contains it."""
        receiver = self._source.receiver
        if receiver is not None and version.revision > self._since:
            receiver.receive((version,))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._source.close(self)
