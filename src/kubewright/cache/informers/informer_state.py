"""`InformerState`: the objects of one kind, their event handlers and the writes of this client.

Feeds deliver the versions of a state and of changes (`receive_version`, `receive_deletion`); handlers are
called for each change, in the order of revisions.

Responses to writes of this client are stored as well, as soon as they arrive (`record_write`), so a read
after a write never returns an older version; the watch event that follows is not newer and is ignored.
Revisions decide which version is newer, so the order of response and event does not matter.

Where a response only shows that an object has changed (`expect_version`, `expect_change`), readers wait for
the watch (`wait_for_pending_writes`). `own_writes` has what is known of writes before the watch delivers
them; if it never does, the informer discards all revisions and lists again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.encoding.codec import ObjectHeader, decoder
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import revision_number
from kubewright.cache.reflectors.lister_watcher import ObjectError, ObjectEvent
from kubewright.cache.stores.store import (
    CacheEntry,
    MemoryEntry,
    ObjectChange,
    ObjectKey,
    Store,
    metadata_only_bytes,
)

from .informer_handlers import InformerHandlers
from .own_writes import OwnWrites
from .version_decoder import EntryForm, Transform, VersionDecoder

if TYPE_CHECKING:
    from kubewright.api.selectors.label_selectors import Selector

    from .namespace_feed import NamespaceFeed

_decode_header = decoder(ObjectHeader).decode


class InformerState:
    """What an informer knows. It has no tasks and sends no requests."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        metadata_only: bool,
        labels: Selector | None,
        filtered_by_fields: bool,
        transform: Transform | None,
        form: EntryForm | None,
        store: Store | None,
        resync: float,
        rng: random.Random | None,
    ) -> None:
        self.gvk = gvk
        self.metadata_only = metadata_only
        self.labels = labels
        self.filtered_by_fields = filtered_by_fields
        self.own_writes = OwnWrites(self.revision)
        self.store = Store() if store is None else store
        self.generation = 0
        """Grows with every change; readers compare it to reuse what they derived from the objects."""
        self.on_failure: Callable[[str], object] | None = None
        """Called with `handler` or `undecodable` for each such failure, which is also logged."""
        self._decoder = VersionDecoder(
            gvk.kind, self.store, form=form, transform=transform, report_failure=self._report_failure
        )
        self.undecodable = self._decoder.undecodable
        """Objects that cannot be decoded now; the store has their last good version, if there was one."""
        self._handlers = InformerHandlers(
            gvk.kind, self.store, resync=resync, rng=rng, report_failure=self._report_failure
        )
        self._feeds: Sequence[NamespaceFeed] = ()
        self._upgrading = False
        self._progress: asyncio.Event | None = None

    # Readers

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
        if self.undecodable:
            for error in self.unknown(namespace):
                raise error.copy()
        entries = list(self.store.entries(namespace or None))
        if len(entries) > 1:
            entries.sort(key=_by_key)
        return [entry.object for _, entry in entries]

    def unknown(self, namespace: str = "") -> Sequence[ObjectError]:
        """Return the errors of objects that cannot be decoded and of which no earlier version is stored."""
        return self._decoder.unknown(namespace)

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

    @property
    def is_current(self) -> bool:
        """Whether the state has been received and no watch is interrupted: changes arrive as they happen."""
        return all(each.reflector.current.is_set() for each in self._feeds)

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
            known = self.store.get(key)
            if known is None or known.revision < revision:
                event = RawEvent("MODIFIED", metadata_only_bytes(raw) if self.metadata_only else raw, header)
                self._put(key, known, self._decoder.form(event), event.resource_version)
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
        entry = self._decoder.decode(key, event)
        if entry is not None:
            self._put(key, known, entry, event.resource_version, initial)

    def _repeat(self, key: ObjectKey, known: CacheEntry, event: ObjectEvent, call_handlers: bool) -> None:
        """Receive the stored version again, with its object."""
        entry = self._decoder.decode(key, event) if self._upgrading or self.metadata_only else known
        if entry is None:
            return
        if self._upgrading:
            self.store.put(key, entry)
        if call_handlers:
            self._dispatch(ObjectChange(key, entry, entry, True))

    def call_joining(self, key: ObjectKey, event: ObjectEvent) -> None:
        """Call the handlers that receive the existing objects from this list."""
        if self._handlers.joining:
            entry = self._decoder.decode(key, event) or self.store.get(key)
            if entry is not None:
                self._handlers.call_joining(key, entry)

    def _put(
        self,
        key: ObjectKey,
        known: CacheEntry | None,
        entry: CacheEntry,
        resource_version: str,
        initial: bool = False,
    ) -> None:
        """Store a version that is newer than the known one."""
        writes, revision = self.own_writes, entry.revision
        if writes.floors and revision and writes.floors.get(key, 0) >= revision:
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

    def receive_deletion(self, key: ObjectKey, revision: int, event: ObjectEvent | None = None) -> None:
        """Remove an object, unless the stored version is newer."""
        known = self.store.get(key)
        if event is not None and not self.filtered:
            self._confirm_deletion(known, event)
        if self.undecodable and self.undecodable.pop(key, None) is not None:
            self.generation += 1
        if known is None or (revision and known.revision > revision):
            return
        self.own_writes.raise_floor(key, max(revision, known.revision))
        self.store.pop(key)
        if self.own_writes.expected:
            self._meet_expectation(key, revision, "")
        if event is not None and self.metadata_only:
            known = known.with_object(event.raw)
        self._dispatch(ObjectChange(key, known, None))

    def _confirm_deletion(self, known: CacheEntry | None, event: ObjectEvent) -> None:
        """Forget an own deletion that an event confirms: that of the stored object, unless it is newer."""
        if known is not None and known.revision <= event.revision:
            self.own_writes.confirm_deletion(known.uid)
            return
        try:
            uid = event.header.metadata.uid
        except msgspec.DecodeError:
            return  # what is stored for the object cannot be decoded
        self.own_writes.confirm_deletion(uid or "")

    def finish_state(self) -> None:
        """Call the handlers that joined during a list for changes from now on."""
        self._handlers.finish_joining()

    def _meet_expectation(self, key: ObjectKey, revision: int, resource_version: str) -> None:
        if self.own_writes.meet_expectation(key, revision, resource_version):
            self._notify_waiters()

    def _dispatch(self, change: ObjectChange) -> None:
        self.generation += 1
        self._handlers.dispatch(change)

    def _report_failure(self, what: str) -> None:
        self.generation += 1
        if self.on_failure is not None:
            self.on_failure(what)

    def _notify_waiters(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    def report_progress(self) -> None:
        """Continue readers that wait for revisions or writes."""
        writes = self.own_writes
        if writes.floors or writes.expected:
            writes.discard_delivered()
        if self._upgrading and self.is_current:
            self._upgrading = False
        if self._progress is not None:
            self._notify_waiters()

    def forget_revisions(self, namespace: str) -> None:
        """Reset all revisions: the server has started a new history, nothing can be compared with it."""
        for key, entry in self.store.snapshot(namespace or None):
            self.store.put(key, MemoryEntry(entry.raw, 0, entry.uid))
        self.own_writes.clear()


def _by_key(item: tuple[ObjectKey, CacheEntry]) -> ObjectKey:
    return item[0]
