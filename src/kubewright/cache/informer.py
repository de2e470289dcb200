"""`Informer`: one kind, kept in sync by reflectors, with event handlers and the writes of this client.

An informer runs one reflector per namespace it covers; all of them fill one store. Handlers are called for
each change, in order. Responses to writes of this client are stored as well, as soon as they arrive
(`record_write`), so a read after a write never returns an older version; the watch event that follows is not
newer and is ignored. Revisions decide which version is newer, so the order of response and event does not
matter.

Where a response only shows that an object has changed (`expect_version`, `expect_change`), readers wait for
the watch (`wait_for_pending_writes`). `own_writes` has what is known of writes before the watch delivers
them; if it never does, the informer discards all revisions and lists again.

A metadata informer becomes one of full objects when those are needed (`upgrade`): it keeps its handlers and
its entries, and the bytes are replaced without calling handlers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

from kubewright.api.codec import ObjectHeader, decoder
from kubewright.api.errors import Expired
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.label_selectors import Selector
from kubewright.background import run_forever
from kubewright.client.backoff import Backoff
from kubewright.client.listwatch.raw import RawEvent

from .own_writes import OwnWrites, SeenNames
from .reflector import ListerWatcher, Reflector
from .resync import Resync, check_resync
from .store import MemoryEntry, ObjectChange, ObjectKey, Store, metadata_only_bytes, strip_managed_fields

logger = logging.getLogger(__name__)

ResourceEventHandler = Callable[[ObjectChange], None]
"""Called synchronously for each change, in order. It must be fast: put the key in a queue."""
Transform = Callable[[bytes, ObjectHeader], bytes]
"""Changes the bytes of an object before it is stored; removing unused fields saves memory."""
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
        store: Store | None = None,
        resync: float = 0.0,
        rng: random.Random | None = None,
        stream_initial_events: bool = True,
    ) -> None:
        """`sources` are by namespace; the key `""` stands for all namespaces. `store` is an empty one.

        `resync`: period in seconds of handlers that are added without one; 0: they get no resyncs.
        """
        self.gvk = gvk
        self.metadata_only = metadata_only
        self.labels = labels
        self.filtered_by_fields = filtered_by_fields
        self.own_writes = OwnWrites(self.revision)
        self.store = Store() if store is None else store
        self._transform = transform
        self._rng = rng
        self._stream_initial_events = stream_initial_events
        self._handlers: tuple[ResourceEventHandler, ...] = ()
        self._resync_period = check_resync(resync)
        self._resyncs: list[tuple[ResourceEventHandler, Resync]] = []
        self._reflectors = self._create_reflectors(sources)
        self._tasks: list[asyncio.Task[None]] = []
        self._upgrading = False
        self._progress: asyncio.Event | None = None

    def _create_reflectors(self, sources: Mapping[str, ListerWatcher]) -> list[_NamespaceReflector]:
        return [
            _NamespaceReflector(self, namespace, source, self._rng, self._stream_initial_events)
            for namespace, source in sources.items()
        ]

    # Lifecycle

    def start(self) -> None:
        """Start the reflectors and the resyncs."""
        if not self._tasks:
            self._tasks = [
                run_forever(each.reflector.run, name=f"reflector {self.gvk.kind}")
                for each in self._reflectors
            ]
        for _, resync in self._resyncs:
            resync.start()

    async def stop(self) -> None:
        """Stop the reflectors and the resyncs; the store keeps its contents."""
        for _, resync in self._resyncs:
            resync.stop()
        await self._stop_reflectors()

    async def _stop_reflectors(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def upgrade(self, sources: Mapping[str, ListerWatcher]) -> None:
        """Store full objects from now on; until `has_synced`, some entries may still be metadata."""
        if not self.metadata_only:
            return
        self.metadata_only = False
        self._upgrading = True
        revisions = {each.namespace: each.revision for each in self._reflectors}
        was_running, previous = bool(self._tasks), self._reflectors
        self._reflectors = self._create_reflectors(sources)
        for each in self._reflectors:
            each.revision = revisions.get(each.namespace, 0)
        for each in previous:
            # Waiters of the previous reflectors check again, and then wait for the new ones.
            each.reflector.attempted.set()
            each.reflector.synced.set()
        await self._stop_reflectors()
        if was_running:
            self.start()

    @property
    def is_running(self) -> bool:
        """Whether the reflectors have been started."""
        return bool(self._tasks)

    @property
    def has_synced(self) -> bool:
        """Whether the initial state has been received."""
        return all(each.reflector.synced.is_set() for each in self._reflectors)

    async def wait_for_sync(self) -> None:
        """Wait until the initial state has been received."""
        while not self.has_synced:
            for each in self._reflectors:
                await each.reflector.synced.wait()

    async def wait_for_first_attempt(self) -> None:
        """Wait until the initial state has been received or the first attempt failed; see `last_error`."""
        for each in self._reflectors:
            await each.reflector.attempted.wait()

    @property
    def last_error(self) -> BaseException | None:
        """The error of a reflector that is currently failing, if any."""
        return next(
            (each.reflector.last_error for each in self._reflectors if each.reflector.last_error), None
        )

    def retry_now(self) -> None:
        """Retry failing reflectors now instead of after their backoff."""
        for each in self._reflectors:
            each.reflector.retry_now()

    # Readers

    def add_handler(self, handler: ResourceEventHandler, *, resync: float | None = None) -> None:
        """Call `handler` for every change, beginning with all stored objects, immediately.

        `resync`: seconds within which it is called again for every object, with the same entry as old and
        new; 0: never, `None`: the period of the informer.
        """
        period = self._resync_period if resync is None else check_resync(resync)
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

    @property
    def filtered(self) -> bool:
        """Whether selectors limit the contents of the store."""
        return self.labels is not None or self.filtered_by_fields

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are covered; `""` stands for all of them."""
        return tuple(each.namespace for each in self._reflectors)

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are stored."""
        return any(each.namespace in ("", namespace) for each in self._reflectors)

    def revision(self, namespace: str = "") -> int:
        """Return the revision up to which the store is complete, for a namespace or for all it covers."""
        if not namespace:
            return min((each.revision for each in self._reflectors), default=0)
        return max(
            (each.revision for each in self._reflectors if each.namespace in ("", namespace)), default=0
        )

    async def wait_for_revision(self, revision: int, *, namespace: str = "") -> None:
        """Wait until the store contains all changes up to a revision."""
        while self.revision(namespace) < revision:
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
        header = _decode_header(raw)
        meta = header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        revision = _number(meta.resource_version)
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
                self._remove(key, revision)
        else:
            self._put(key, metadata_only_bytes(raw) if self.metadata_only else raw, header, revision)
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
        revision = _number(resource_version)
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

    # Changes from the reflectors

    def _put(
        self, key: ObjectKey, raw: bytes, header: ObjectHeader, revision: int, initial: bool = False
    ) -> None:
        known, writes = self.store.get(key), self.own_writes
        uid = header.metadata.uid or ""
        if revision:
            if known is not None and known.revision >= revision:
                if self._upgrading and known.revision == revision:
                    self.store.put(key, MemoryEntry(self._transformed(raw, header), revision, uid))
                return
            if writes.floors and writes.floors.get(key, 0) >= revision:
                return
        if writes.deleted and uid in writes.deleted:
            # Deleted already; it existed at this revision, so older versions must not be stored either.
            writes.raise_floor(key, revision)
            if known is not None and known.uid != uid:
                self._remove(key, revision)
            return
        entry = MemoryEntry(self._transformed(raw, header), revision, uid)
        self.store.put(key, entry)
        if writes.expected:
            self._meet_expectation(key, revision, header.metadata.resource_version or "")
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

    def _remove(self, key: ObjectKey, revision: int, uid: str = "") -> None:
        if uid and not self.filtered:
            self.own_writes.deleted.pop(uid, None)
        known = self.store.get(key)
        if known is None or (revision and known.revision > revision):
            return
        self.own_writes.raise_floor(key, max(revision, known.revision))
        self.store.pop(key)
        if self.own_writes.expected:
            self._meet_expectation(key, revision, "")
        self._dispatch(ObjectChange(key, known, None))

    def _meet_expectation(self, key: ObjectKey, revision: int, resource_version: str) -> None:
        if self.own_writes.meet_expectation(key, revision, resource_version):
            self._notify_waiters()

    def _dispatch(self, change: ObjectChange) -> None:
        for handler in self._handlers:
            self._call(handler, change)

    def _call(self, handler: ResourceEventHandler, change: ObjectChange) -> None:
        try:
            handler(change)
        except Exception:
            logger.exception("event handler failed", extra=self._log_fields(change.key))

    def _log_fields(self, key: ObjectKey) -> dict[str, str]:
        return {"kind": self.gvk.kind, "namespace": key.namespace, "object": key.name}

    def _notify_waiters(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    def _on_progress(self) -> None:
        self.own_writes.discard_delivered()
        if self._upgrading and self.has_synced:
            self._upgrading = False
        self._notify_waiters()

    def _forget_revisions(self, namespace: str) -> None:
        """Reset all revisions: the server has started a new history, nothing can be compared with it."""
        for key, entry in self.store.snapshot(namespace or None):
            self.store.put(key, MemoryEntry(entry.raw, 0, entry.uid))
        self.own_writes.clear()


class _NamespaceReflector:
    """The reflector of one namespace, or of all of them, and the part of the informer that it fills."""

    def __init__(
        self,
        informer: Informer,
        namespace: str,
        source: ListerWatcher,
        rng: random.Random | None,
        stream_initial_events: bool,
    ) -> None:
        self.namespace = namespace
        self.revision = 0
        self._informer = informer
        self._seen: SeenNames | None = None
        self.reflector = Reflector(
            informer.gvk.kind,
            source,
            self,
            namespace=namespace,
            rng=rng,
            backoff=Backoff(rng=rng),
            stream_initial_events=stream_initial_events,
        )

    def begin(self) -> None:
        """Start to receive a complete state."""
        self._seen = defaultdict(set)

    def initial(self, raw: bytes, header: ObjectHeader) -> None:
        """Receive one object of the state."""
        meta = header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        assert self._seen is not None
        self._seen[key.namespace].add(key.name)
        self._informer._put(key, raw, header, _number(meta.resource_version), initial=True)

    def replace(self, resource_version: str) -> bool:
        """The state is complete: remove objects that are not in it, unless they are newer."""
        seen, self._seen = self._seen or {}, None
        revision = _number(resource_version)
        informer = self._informer
        if revision and revision < self.revision:
            informer._forget_revisions(self.namespace)
            self.revision = 0
            return False
        for key, _ in informer.store.snapshot(self.namespace or None):
            if key.name not in seen.get(key.namespace, ()):
                informer._remove(key, revision)
        if informer.own_writes.deleted:
            informer.own_writes.confirm_deletions(seen, self.namespace, revision)
        self.progress(resource_version)
        return True

    def event(self, event: RawEvent) -> None:
        """Receive one change."""
        meta = event.header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        revision = _number(meta.resource_version)
        if event.type == "DELETED":
            if self._seen is not None:
                self._seen[key.namespace].discard(key.name)
            self._informer._remove(key, revision, meta.uid or "")
        else:
            if self._seen is not None:
                self._seen[key.namespace].add(key.name)
            self._informer._put(key, event.raw, event.header, revision)

    def progress(self, resource_version: str) -> None:
        """All changes up to this version have been received; raises `Expired` if a write is missing."""
        self.revision = max(self.revision, _number(resource_version))
        informer = self._informer
        informer._on_progress()
        if informer.own_writes.undelivered and informer.own_writes.has_lost_write(self.namespace):
            informer._forget_revisions(self.namespace)
            self.revision = 0
            raise Expired("the watch has not delivered a write of this client")


def _number(resource_version: str | None) -> int:
    """Return a resource version as a number; 0 if it is not decimal and so cannot be ordered."""
    return int(resource_version) if resource_version and resource_version.isdecimal() else 0


__all__ = ["Informer", "ResourceEventHandler", "Transform"]
