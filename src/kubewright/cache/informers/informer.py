"""`Informer`: one kind, kept in sync by reflectors, with event handlers and the writes of this client.

An informer runs one reflector per namespace it covers; all of them fill one store. Its objects come from a
`ListerWatcher`: requests to an API server, or the storage of a control plane. Handlers are called for each
change, in the order of revisions. After a lost watch the informer is not current (`is_current`) until it has
listed again; `wait_for_revision` is for readers that must not act on an older state.

Responses to writes of this client are stored as well, as soon as they arrive (`record_write`), so a read
after a write never returns an older version; the watch event that follows is not newer and is ignored.
Revisions decide which version is newer, so the order of response and event does not matter.

Where a response only shows that an object has changed (`expect_version`, `expect_change`), readers wait for
the watch (`wait_for_pending_writes`). `own_writes` has what is known of writes before the watch delivers
them; if it never does, the informer discards all revisions and lists again.

A metadata informer becomes one of full objects when those are needed (`upgrade`): it keeps its handlers and
its entries, and the bytes are replaced without calling handlers. An object that cannot be decoded is reported
(`undecodable`) and keeps its last version: it is neither changed nor deleted.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.encoding.codec import ObjectHeader, decoder
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import revision_number
from kubewright.background import run_forever
from kubewright.cache.errors import UndecodableVersion
from kubewright.cache.reflectors.lister_watcher import ListerWatcher, ObjectError, ObjectEvent
from kubewright.cache.stores.store import (
    CacheEntry,
    MemoryEntry,
    ObjectChange,
    ObjectKey,
    Store,
    metadata_only_bytes,
    strip_managed_fields,
)
from kubewright.client.backoff import Backoff

from .namespace_feed import NamespaceFeed
from .own_writes import OwnWrites
from .resync import Resync, check_resync

if TYPE_CHECKING:
    from kubewright.api.selectors.label_selectors import Selector

logger = logging.getLogger(__name__)

ResourceEventHandler = Callable[[ObjectChange], None]
"""Called synchronously for each change, in order. It must be fast: put the key in a queue."""
Transform = Callable[[bytes, ObjectHeader], bytes]
"""Changes the bytes of an object before it is stored; removing unused fields saves memory."""
EntryForm = Callable[[ObjectEvent], CacheEntry]
"""Returns what is stored of a received version, such as `SharedEntry.of`; raises `msgspec.DecodeError`."""
_decode_header = decoder(ObjectHeader).decode


class Informer:
    """The informer of one kind. A `Cache` creates and owns it; it also works alone, in one process."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        sources: Mapping[str, ListerWatcher],
        *,
        metadata_only: bool = False,
        labels: Selector | None = None,
        filtered_by_fields: bool = False,
        transform: Transform | None = strip_managed_fields,
        form: EntryForm | None = None,
        store: Store | None = None,
        resync: float = 0.0,
        rng: random.Random | None = None,
        backoff: Callable[[], Backoff] | None = None,
        stream_initial_events: bool = True,
        optional: bool = False,
    ) -> None:
        """`sources` are by namespace; the key `""` stands for all namespaces. `store` is an empty one.

        `form`: how objects are stored, by default as bytes to which `transform` was applied.
        `resync`: period in seconds of handlers that are added without one; 0: they get no resyncs.
        `backoff`: delays between failed requests, by default from 0.8 s to 30 s.
        `optional`: the informer of a kind that is not served is synced, and empty.
        """
        self.gvk = gvk
        self.metadata_only = metadata_only
        self.labels = labels
        self.filtered_by_fields = filtered_by_fields
        self.own_writes = OwnWrites(self.revision)
        self.store = Store() if store is None else store
        self.generation = 0
        """Grows with every change; readers compare it to reuse what they derived from the objects."""
        self.undecodable: dict[ObjectKey, ObjectError] = {}
        """Objects that cannot be decoded now; the store has their last good version, if there was one."""
        self.on_failure: Callable[[str], object] | None = None
        """Called with `handler` or `undecodable` for each such failure, which is also logged."""
        self._form = form or self._memory_entry
        self._transform = transform
        self._rng = rng
        self._backoff = backoff
        self._stream_initial_events = stream_initial_events
        self._optional = optional
        self._handlers: tuple[ResourceEventHandler, ...] = ()
        self._joining: tuple[ResourceEventHandler, ...] = ()
        """Handlers that receive the existing objects from the next list."""
        self._resync_period = check_resync(resync)
        self._resyncs: list[tuple[ResourceEventHandler, Resync]] = []
        self._feeds = self._create_feeds(sources)
        self._tasks: list[asyncio.Task[None]] = []
        self._upgrading = False
        self._progress: asyncio.Event | None = None

    def _create_feeds(self, sources: Mapping[str, ListerWatcher]) -> Sequence[NamespaceFeed]:
        return [
            NamespaceFeed(
                self,
                namespace,
                source,
                rng=self._rng,
                backoff=self._backoff() if self._backoff is not None else Backoff(rng=self._rng),
                stream_initial_events=self._stream_initial_events,
                optional=self._optional,
            )
            for namespace, source in sources.items()
        ]

    # Lifecycle

    def start(self) -> None:
        """Start the reflectors and the resyncs."""
        if not self._tasks:
            name = f"reflector {self.gvk.kind}"
            self._tasks = [run_forever(each.reflector.run, name=name) for each in self._feeds]
        for _, resync in self._resyncs:
            resync.start()

    async def stop(self) -> None:
        """Stop the reflectors and the resyncs; the store keeps its contents."""
        tasks = self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cancel(self) -> Sequence[asyncio.Task[None]]:
        """Stop without waiting; return the tasks that end."""
        for _, resync in self._resyncs:
            resync.stop()
        tasks, self._tasks = self._tasks, []
        for each in self._feeds:
            each.reflector.current.clear()
        for task in tasks:
            task.cancel()
        return tasks

    async def upgrade(self, sources: Mapping[str, ListerWatcher]) -> None:
        """Store full objects from now on; until `has_synced`, some entries may still be metadata."""
        if not self.metadata_only:
            return
        self.metadata_only = False
        self._upgrading = True
        revisions = {each.namespace: each.revision for each in self._feeds}
        was_running, previous = bool(self._tasks), self._feeds
        self._feeds = self._create_feeds(sources)
        for each in self._feeds:
            each.revision = revisions.get(each.namespace, 0)
        for each in previous:
            # Waiters of the previous reflectors check again, and then wait for the new ones.
            each.reflector.attempted.set()
            each.reflector.synced.set()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if was_running:
            self.start()

    def retain_objects(self) -> None:
        """Store full objects from now on, from sources that send them also to informers of metadata."""
        if self.metadata_only:
            self.metadata_only = False
            if len(self.store):
                self._upgrading = True
                self.relist()

    def relist(self) -> None:
        """List again; until then the informer is not current."""
        running, self._tasks = self._tasks, []
        for each in self._feeds:
            each.reflector.reset()
        for task in running:
            task.cancel()
        if running:
            self.start()

    @property
    def is_running(self) -> bool:
        """Whether the reflectors have been started."""
        return bool(self._tasks)

    @property
    def has_synced(self) -> bool:
        """Whether the initial state has been received."""
        return all(each.reflector.synced.is_set() for each in self._feeds)

    async def wait_for_sync(self) -> None:
        """Wait until the initial state has been received."""
        while not self.has_synced:
            for each in self._feeds:
                await each.reflector.synced.wait()

    @property
    def is_current(self) -> bool:
        """Whether the state has been received and no watch is interrupted: changes arrive as they happen."""
        return all(each.reflector.current.is_set() for each in self._feeds)

    @property
    def is_fresh(self) -> bool:
        """Whether it is current and has all writes that its sources know of."""
        for each in self._feeds:
            if not (each.reflector.current.is_set() and each.reflector.source.has_delivered_writes):
                return False
        return True

    async def wait_until_current(self) -> None:
        """Wait until the state has been received, again if a watch was lost, and changes arrive."""
        while not self.is_current:
            for each in self._feeds:
                await each.reflector.current.wait()

    async def wait_for_first_attempt(self) -> None:
        """Wait until the initial state has been received or the first attempt failed; see `last_error`."""
        for each in self._feeds:
            await each.reflector.attempted.wait()

    @property
    def last_error(self) -> BaseException | None:
        """The error of a reflector that is currently failing, if any."""
        return next((each.reflector.last_error for each in self._feeds if each.reflector.last_error), None)

    def retry_now(self) -> None:
        """Retry failing reflectors now instead of after their backoff."""
        for each in self._feeds:
            each.reflector.retry_now()

    # Readers

    def add_handler(
        self, handler: ResourceEventHandler, *, resync: float | None = None, needs_objects: bool = False
    ) -> None:
        """Call `handler` for every change, beginning with all stored objects, immediately.

        `resync`: seconds within which it is called again for every object, with the same entry as old and
        new; 0: never, `None`: the period of the informer. `needs_objects`: the entries of new versions have
        objects also if only their metadata is stored (`SharedEntry`); existing objects are listed again.
        """
        period = self._resync_period if resync is None else check_resync(resync)
        if needs_objects and (self.metadata_only or self._upgrading) and len(self.store):
            self._joining += (handler,)
            self.relist()
            return
        for key, entry in self.store.snapshot():
            self._call(handler, ObjectChange(key, None, entry, initial=True))
        self._handlers += (handler,)
        if period:
            resyncs = Resync(self.store, partial(self._call, handler), period, self._rng)
            self._resyncs.append((handler, resyncs))
            if self.is_running:
                resyncs.start()

    def remove_handler(self, handler: ResourceEventHandler) -> None:
        """Stop calling a handler; `ValueError` if it was not added."""
        if handler in self._joining:
            self._joining = tuple(each for each in self._joining if each != handler)
            return
        handlers = list(self._handlers)
        handlers.remove(handler)
        self._handlers = tuple(handlers)
        for position, (each, resync) in enumerate(self._resyncs):
            if each == handler:
                resync.stop()
                del self._resyncs[position]
                break

    def resync(self) -> None:
        """Call every handler for every stored object now, with the same entry as old and new."""
        for key, entry in self.store.snapshot():
            self._dispatch(ObjectChange(key, entry, entry, initial=True))

    def __contains__(self, key: ObjectKey) -> bool:
        return self.store.get(key) is not None or key in self.undecodable

    def get(self, name: str, *, namespace: str = "") -> dict[str, Any] | None:
        """Return one object as plain data, or `None`. Do not change it: entries may share it.

        Raises the error of an object that cannot be decoded, if there was no version that could.
        """
        key = ObjectKey(namespace, name)
        entry = self.store.get(key)
        if entry is not None:
            return entry.object
        if key in self.undecodable:
            raise self.undecodable[key].copy()
        return None

    def list(self, *, namespace: str = "") -> list[dict[str, Any]]:
        """Return all objects as plain data, or those of one namespace, by name. Do not change them.

        Raises the error of an object that cannot be decoded, if there was no version that could.
        """
        for error in self.unknown(namespace):
            raise error.copy()
        entries = sorted(self.store.entries(namespace or None), key=_by_key)
        return [entry.object for _, entry in entries]

    def unknown(self, namespace: str = "") -> Sequence[ObjectError]:
        """Return the errors of objects that cannot be decoded and of which no earlier version is stored."""
        return [
            error
            for key, error in self.undecodable.items()
            if namespace in ("", key.namespace) and self.store.get(key) is None
        ]

    @property
    def filtered(self) -> bool:
        """Whether selectors limit the contents of the store."""
        return self.labels is not None or self.filtered_by_fields

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are covered; `""` stands for all of them."""
        return tuple(each.namespace for each in self._feeds)

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are stored."""
        return any(each.namespace in ("", namespace) for each in self._feeds)

    def revision(self, namespace: str = "") -> int:
        """Return the revision up to which the store is complete, for a namespace or for all it covers."""
        if not namespace:
            return min((each.revision for each in self._feeds), default=0)
        return max((each.revision for each in self._feeds if each.namespace in ("", namespace)), default=0)

    async def wait_for_revision(self, revision: int, *, namespace: str = "") -> None:
        """Wait until the store contains all changes up to a revision."""
        while self.revision(namespace) < revision:
            for each in self._feeds:
                each.reflector.source.request_progress(revision)
            if self.revision(namespace) < revision:
                await self._wait_for_progress()

    def has_pending_writes(self, namespace: str | None = None, name: str | None = None) -> bool:
        """Whether the watch has yet to deliver writes of this client to an object or namespace."""
        return self.own_writes.has_pending(namespace, name)

    async def wait_for_pending_writes(self, namespace: str | None = None, name: str | None = None) -> None:
        """Wait until the watch has delivered the writes of this client."""
        while self.has_pending_writes(namespace, name):
            await self._wait_for_progress()

    async def _wait_for_progress(self) -> None:
        if self._progress is None:
            self._progress = asyncio.Event()
        await self._progress.wait()

    # Writes of this client

    def record_write(self, raw: bytes) -> bool:
        """Store the response to a write; return whether that was possible.

        It is not possible where a field selector decides what is stored, where the response has another
        version or only a part of the object, or where revisions are not numbers; then use `expect_version`.
        """
        from kubewright.client.listwatch.raw import RawEvent

        header = _decode_header(raw)
        meta = header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        revision = revision_number(meta.resource_version)
        if not self.covers(key.namespace):
            return True
        if not revision:
            return False
        self.own_writes.add_revision(revision)
        if revision <= self.revision(key.namespace):
            return True
        if not self.filtered:
            self.own_writes.require_delivery(key.namespace, revision)
        if self.filtered_by_fields:
            return False
        if not self._is_storable(header):
            return False
        if self.labels is not None and not self.labels.matches(meta.labels or {}):
            known = self.store.get(key)
            if known is None or known.revision < revision:
                self.own_writes.raise_floor(key, revision)
                self.receive_deletion(key, revision)
        else:
            event = RawEvent("MODIFIED", metadata_only_bytes(raw) if self.metadata_only else raw, header)
            self._put(key, self._form(event), event.resource_version)
        return True

    def _is_storable(self, header: ObjectHeader) -> bool:
        """Whether a response has the form of the stored objects, or can be reduced to it."""
        if header.kind == "PartialObjectMetadata":
            return self.metadata_only
        same_kind = header.kind == self.gvk.kind
        return same_kind and (self.metadata_only or header.api_version == self.gvk.api_version)

    def record_deletion(self, key: ObjectKey, uid: str) -> None:
        """Remove an object that the server has deleted for this client."""
        entry = self.store.get(key)
        if entry is not None and (not uid or entry.uid == uid):
            self.own_writes.add_deletion(entry.uid, key, None if self.filtered else entry.revision)
            self.own_writes.raise_floor(key, entry.revision)
            self.store.pop(key)
            self._dispatch(ObjectChange(key, entry, None))
            return
        if uid and self.covers(key.namespace):
            self.own_writes.add_deletion(uid, key, None)
        if entry is not None:
            self.expect_change(key, entry.revision)

    def expect_version(self, key: ObjectKey, resource_version: str) -> None:
        """An object has this version now; readers wait for its content."""
        revision = revision_number(resource_version)
        delivered = revision and revision <= self.revision(key.namespace)
        if not resource_version or delivered or not self.covers(key.namespace):
            return
        entry = self.store.get(key)
        if revision and entry is not None and entry.revision >= revision:
            return
        self.own_writes.expect(key, revision, resource_version)
        if revision and not self.filtered:
            self.own_writes.require_delivery(key.namespace, revision)

    def expect_change(self, key: ObjectKey, revision: int = 0) -> None:
        """An object is newer than this revision, or exists (0); readers wait for its content."""
        entry = self.store.get(key)
        known = 0 if entry is None else entry.revision
        if self.covers(key.namespace) and known <= revision:
            self.own_writes.expect(key, revision + 1)

    def discard_expectation(self, key: ObjectKey) -> None:
        """Stop waiting for an object, because it was read from the server."""
        self.own_writes.expected.pop(key, None)

    # Changes from the feeds

    def receive_version(
        self, key: ObjectKey, event: ObjectEvent, *, initial: bool = False, repeat: bool = False
    ) -> None:
        """Store a version if it is newer; `repeat`: call handlers also if it is the stored one."""
        known, revision = self.store.get(key), event.revision
        if known is not None and revision and known.revision >= revision:
            if known.revision == revision and (repeat or self._upgrading):
                self._repeat(key, known, event, repeat)
            return
        entry = self._decoded(key, event)
        if entry is not None:
            self._put(key, entry, event.resource_version, initial)

    def _repeat(self, key: ObjectKey, known: CacheEntry, event: ObjectEvent, call_handlers: bool) -> None:
        """Receive the stored version again, with its object."""
        entry = self._decoded(key, event) if self._upgrading or self.metadata_only else known
        if entry is None:
            return
        if self._upgrading:
            self.store.put(key, entry)
        if call_handlers:
            self._dispatch(ObjectChange(key, entry, entry, True))

    def call_joining(self, key: ObjectKey, event: ObjectEvent) -> None:
        """Call the handlers that receive the existing objects from this list."""
        if not self._joining:
            return
        entry = self._decoded(key, event) or self.store.get(key)
        if entry is not None:
            for handler in self._joining:
                self._call(handler, ObjectChange(key, None, entry, True))

    def _decoded(self, key: ObjectKey, event: ObjectEvent) -> CacheEntry | None:
        """Return the entry of a version; `None` if it cannot be decoded: the last good one stays."""
        error = event.error
        if error is None:
            try:
                entry = self._form(event)
            except msgspec.DecodeError as failure:
                error = UndecodableVersion(str(failure))
            else:
                if self.undecodable:
                    self.undecodable.pop(key, None)
                return entry
        if self.undecodable.get(key) is not error:
            self.undecodable[key] = error
            self.generation += 1
            self._report_failure("undecodable")
            known = self.store.get(key) is not None
            logger.error(
                "object cannot be decoded; its last state stays in use"
                if known
                else "object cannot be decoded and has no last state",
                extra={**self._log_fields(key), "error": str(error)},
            )
        return None

    def _memory_entry(self, event: ObjectEvent) -> CacheEntry:
        header = event.header
        return MemoryEntry(self._transformed(event.raw, header), event.revision, header.metadata.uid or "")

    def _put(self, key: ObjectKey, entry: CacheEntry, resource_version: str, initial: bool = False) -> None:
        known, writes = self.store.get(key), self.own_writes
        revision = entry.revision
        if revision:
            if known is not None and known.revision >= revision:
                return
            if writes.floors and writes.floors.get(key, 0) >= revision:
                return
        if writes.deleted and entry.uid in writes.deleted:
            # Deleted already; it existed at this revision, so older versions must not be stored either.
            writes.raise_floor(key, revision)
            if known is not None and known.uid != entry.uid:
                self.receive_deletion(key, revision)
            return
        self.store.put(key, entry.without_object() if self.metadata_only else entry)
        if writes.expected:
            self._meet_expectation(key, revision, resource_version)
        self._dispatch(ObjectChange(key, known, entry, initial))

    def _transformed(self, raw: bytes, header: ObjectHeader) -> bytes:
        if self._transform is None:
            return raw
        try:
            return self._transform(raw, header)
        except Exception:
            key = ObjectKey(header.metadata.namespace or "", header.metadata.name or "")
            logger.exception("transform failed, storing the object unchanged", extra=self._log_fields(key))
            return raw

    def receive_deletion(self, key: ObjectKey, revision: int, event: ObjectEvent | None = None) -> None:
        """Remove an object, unless the stored version is newer."""
        if event is not None and self.own_writes.deleted and not self.filtered:
            self.own_writes.deleted.pop(event.header.metadata.uid or "", None)
        if self.undecodable and self.undecodable.pop(key, None) is not None:
            self.generation += 1
        known = self.store.get(key)
        if known is None or (revision and known.revision > revision):
            return
        self.own_writes.raise_floor(key, max(revision, known.revision))
        self.store.pop(key)
        if self.own_writes.expected:
            self._meet_expectation(key, revision, "")
        if event is not None and self.metadata_only:
            known = known.with_object(event.raw)
        self._dispatch(ObjectChange(key, known, None))

    def finish_state(self) -> None:
        """Call the handlers that joined during a list for changes from now on."""
        self._handlers += self._joining
        self._joining = ()

    def _meet_expectation(self, key: ObjectKey, revision: int, resource_version: str) -> None:
        if self.own_writes.meet_expectation(key, revision, resource_version):
            self._notify_waiters()

    def _dispatch(self, change: ObjectChange) -> None:
        self.generation += 1
        for handler in self._handlers:
            self._call(handler, change)

    def _call(self, handler: ResourceEventHandler, change: ObjectChange) -> None:
        try:
            handler(change)
        except Exception:
            self._report_failure("handler")
            logger.exception("event handler failed", extra=self._log_fields(change.key))

    def _report_failure(self, what: str) -> None:
        if self.on_failure is not None:
            self.on_failure(what)

    def _log_fields(self, key: ObjectKey) -> dict[str, str]:
        return {"kind": self.gvk.kind, "namespace": key.namespace, "object": key.name}

    def _notify_waiters(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    def report_progress(self) -> None:
        """Continue readers that wait for revisions or writes."""
        self.own_writes.discard_delivered()
        if self._upgrading and self.is_current:
            self._upgrading = False
        self._notify_waiters()

    def forget_revisions(self, namespace: str) -> None:
        """Reset all revisions: the server has started a new history, nothing can be compared with it."""
        for key, entry in self.store.snapshot(namespace or None):
            self.store.put(key, MemoryEntry(entry.raw, 0, entry.uid))
        self.own_writes.clear()


def _by_key(item: tuple[ObjectKey, CacheEntry]) -> ObjectKey:
    return item[0]


__all__ = ["EntryForm", "Informer", "ResourceEventHandler", "Transform"]
