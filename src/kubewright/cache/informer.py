"""One kind, followed and kept: the meeting point of watches, reads and our own writes.

An informer runs a reflector per namespace it covers, all of them filling one store, and calls its handlers
for each change, in order. Our own writes go in as well, the moment their answer arrives (`observe`), so a
read after a write never shows an older version and handlers learn of it at once; when the watch tells the
same thing a little later it is no longer news. Revisions decide what is newer, so it does not matter which
side comes first.

Where an answer says only that something has changed (`expect`), readers wait for the watch (`caught_up`).

An informer of metadata becomes one of whole objects when somebody needs those (`upgrade`): it keeps its
handlers and what it knows, and the bytes are exchanged without anybody being told.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubewright.api.codec import ObjectHeader, decoder
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.label_selectors import Selector
from kubewright.client.listwatch.raw import RawEvent

from .reflector import Backoff, ListerWatcher, Reflector
from .store import CacheEntry, ObjectChange, ObjectKey, Store, metadata_only_bytes, strip_managed_fields

logger = logging.getLogger(__name__)

ResourceEventHandler = Callable[[ObjectChange], None]
"""Called for each change, at once and in order; it must be quick, so it puts the work in a queue."""
Transform = Callable[[bytes, ObjectHeader], bytes]
"""Changes the bytes of an object before it is kept; removing what nobody reads saves memory."""

MAX_UNSEEN_DELETIONS = 1024

_read_header = decoder(ObjectHeader).decode


class _Expectation(NamedTuple):
    """What the watch has yet to tell about one object."""

    revision: int
    resource_version: str
    by_progress: bool
    """Whether it is enough that the watch as a whole has come this far."""


class Informer:
    """A kind that is followed. Made and owned by a `Cache`."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        sources: Mapping[str, ListerWatcher],
        *,
        metadata_only: bool = False,
        labels: Selector | None = None,
        filtered_by_fields: bool = False,
        transform: Transform | None = strip_managed_fields,
        rng: random.Random | None = None,
        stream_initial_state: bool = True,
    ) -> None:
        """`sources` are by namespace; the empty one stands for all of them."""
        self.gvk = gvk
        self.metadata_only = metadata_only
        self.labels = labels
        self.filtered_by_fields = filtered_by_fields
        self.store = Store()
        self._transform = transform
        self._rng = rng
        self._stream_initial_state = stream_initial_state
        self._handlers: tuple[ResourceEventHandler, ...] = ()
        self._followers = self._follow(sources)
        self._tasks: list[asyncio.Task[None]] = []
        self._upgrading = False
        self._gone: dict[str, tuple[ObjectKey, int | None]] = {}
        """What we deleted and the watch has not yet told about: uid to key and last known revision."""
        self._gone_unseen: deque[str] = deque()
        self._floors: dict[ObjectKey, int] = {}
        """Objects that are not here any more: versions up to this one are not to be shown again."""
        self._expected: dict[ObjectKey, _Expectation] = {}
        self._advanced: asyncio.Event | None = None

    def _follow(self, sources: Mapping[str, ListerWatcher]) -> list[_NamespaceReflector]:
        return [
            _NamespaceReflector(self, namespace, source, self._rng, self._stream_initial_state)
            for namespace, source in sources.items()
        ]

    # Life

    def start(self) -> None:
        """Begin to follow."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(each.reflector.run()) for each in self._followers]

    async def stop(self) -> None:
        """Stop following; the store stays as it is."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def upgrade(self, sources: Mapping[str, ListerWatcher]) -> None:
        """Keep whole objects from now on; until `synced` is true again, some may still be metadata."""
        if not self.metadata_only:
            return
        self.metadata_only = False
        self._upgrading = True
        known = {each.namespace: each.revision for each in self._followers}
        running, before = bool(self._tasks), self._followers
        self._followers = self._follow(sources)
        for each in self._followers:
            each.revision = known.get(each.namespace, 0)
        for each in before:
            # Who waits for these looks again, and then waits for the new ones.
            each.reflector.attempted.set()
            each.reflector.synced.set()
        await self.stop()
        if running:
            self.start()

    @property
    def running(self) -> bool:
        """Whether it follows."""
        return bool(self._tasks)

    @property
    def synced(self) -> bool:
        """Whether the initial state is complete."""
        return all(each.reflector.synced.is_set() for each in self._followers)

    async def wait_for_sync(self) -> None:
        """Wait for the initial state."""
        while not self.synced:
            for each in self._followers:
                await each.reflector.synced.wait()

    async def wait_for_attempt(self) -> None:
        """Wait until the initial state is complete or has failed to come once; see `last_error`."""
        for each in self._followers:
            await each.reflector.attempted.wait()

    @property
    def last_error(self) -> BaseException | None:
        """Why it cannot follow at the moment, if it cannot."""
        return next(
            (each.reflector.last_error for each in self._followers if each.reflector.last_error), None
        )

    def retry_now(self) -> None:
        """Try again now, where a reflector waits after a failure."""
        for each in self._followers:
            each.reflector.retry_now()

    # Readers

    def add_handler(self, handler: ResourceEventHandler) -> None:
        """Call `handler` for every change; first, at once, for everything that is known already."""
        for key, entry in list(self.store.entries()):
            self._call(handler, ObjectChange(key, None, entry, initial=True))
        self._handlers += (handler,)

    def remove_handler(self, handler: ResourceEventHandler) -> None:
        """Stop calling it; `ValueError` if it is not called."""
        handlers = list(self._handlers)
        handlers.remove(handler)
        self._handlers = tuple(handlers)

    def resync(self) -> None:
        """Tell every handler about everything again, as a change of nothing."""
        for key, entry in list(self.store.entries()):
            self._tell(ObjectChange(key, entry, entry, initial=True))

    @property
    def filtered(self) -> bool:
        """Whether selectors decide what is in the store."""
        return self.labels is not None or self.filtered_by_fields

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Which namespaces it covers; the empty one stands for all of them."""
        return tuple(each.namespace for each in self._followers)

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are in the store."""
        return any(each.namespace in ("", namespace) for each in self._followers)

    def revision(self, namespace: str = "") -> int:
        """Up to which revision the store knows everything in a namespace, or in all that it covers."""
        if not namespace:
            return min((each.revision for each in self._followers), default=0)
        return max(
            (each.revision for each in self._followers if each.namespace in ("", namespace)), default=0
        )

    async def wait_for_revision(self, namespace: str, revision: int) -> None:
        """Wait until the watch has told everything up to a revision."""
        while self.revision(namespace) < revision:
            await self._advance()

    def has_pending_writes(self, namespace: str | None = None, name: str | None = None) -> bool:
        """Whether the watch has yet to tell what we wrote there."""
        if not self._expected:
            return False
        if name is not None:
            return ObjectKey(namespace or "", name) in self._expected
        return not namespace or any(key.namespace == namespace for key in self._expected)

    async def wait_for_pending_writes(self, namespace: str | None = None, name: str | None = None) -> None:
        """Wait until it has."""
        while self.has_pending_writes(namespace, name):
            await self._advance()

    async def _advance(self) -> None:
        if self._advanced is None:
            self._advanced = asyncio.Event()
        await self._advanced.wait()

    # Our own writes

    def record_write(self, raw: bytes) -> bool:
        """Take in the server's answer to a write of ours. Whether that could be done here and now.

        It cannot where a field selector decides what belongs here, where the answer is of another version or
        only a part of the object, or where revisions are no numbers: then `expect` it.
        """
        header = _read_header(raw)
        meta = header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        revision = _number(meta.resource_version)
        if not self.covers(key.namespace):
            return True
        if not revision:
            return False
        if revision <= self.revision(key.namespace):
            return True
        if self.filtered_by_fields:
            return False
        if not self._is_ours(header):
            return False
        if self.labels is not None and not self.labels.matches(meta.labels or {}):
            known = self.store.get(key)
            if known is None or known.revision < revision:
                self._raise_floor(key, revision)
                self._remove(key, revision)
        else:
            self._put(key, metadata_only_bytes(raw) if self.metadata_only else raw, header, revision)
        return True

    def _is_ours(self, header: ObjectHeader) -> bool:
        """Whether an answer is an object as it is kept here, or can be reduced to it."""
        if header.kind == "PartialObjectMetadata":
            return self.metadata_only
        same_kind = header.kind == self.gvk.kind
        return same_kind and (self.metadata_only or header.api_version == self.gvk.api_version)

    def record_deletion(self, key: ObjectKey, uid: str) -> None:
        """Take in that the server has removed an object for us."""
        entry = self.store.get(key)
        if entry is not None and (not uid or entry.uid == uid):
            self._remember_deletion(entry.uid, key, None if self.filtered else entry.revision)
            self._raise_floor(key, entry.revision)
            self.store.pop(key)
            self._tell(ObjectChange(key, entry, None))
            return
        if uid and self.covers(key.namespace):
            self._remember_deletion(uid, key, None)
        if entry is not None:
            self.expect_change(key, entry.revision)

    def _remember_deletion(self, uid: str, key: ObjectKey, revision: int | None) -> None:
        """Do not let a watch that lags behind bring it back.

        The watch will tell the end of what is in the store. Of what is not, it may have told that already,
        or have yet to tell its beginning; and with a selector, objects end for it more than once. There, only
        the last deletions are remembered.
        """
        self._gone[uid] = (key, revision)
        if revision is None:
            self._gone_unseen.append(uid)
            if len(self._gone_unseen) > MAX_UNSEEN_DELETIONS:
                self._gone.pop(self._gone_unseen.popleft(), None)

    def expect_version(self, key: ObjectKey, resource_version: str) -> None:
        """We know that an object has this version now, but not what it is: readers should wait for it."""
        revision = _number(resource_version)
        told = revision and revision <= self.revision(key.namespace)
        if not resource_version or told or not self.covers(key.namespace):
            return
        entry = self.store.get(key)
        if revision and entry is not None and entry.revision >= revision:
            return
        self._expected[key] = _Expectation(revision, resource_version, by_progress=bool(revision))

    def expect_change(self, key: ObjectKey, revision: int = 0) -> None:
        """We know that an object is no longer at this revision, or exists (0), but not what it is."""
        entry = self.store.get(key)
        known = 0 if entry is None else entry.revision
        if self.covers(key.namespace) and known <= revision:
            self._expected[key] = _Expectation(revision + 1, "", by_progress=False)

    def discard_expectation(self, key: ObjectKey) -> None:
        """The server has been asked itself."""
        self._expected.pop(key, None)

    # What the reflectors tell

    def _put(
        self, key: ObjectKey, raw: bytes, header: ObjectHeader, revision: int, initial: bool = False
    ) -> None:
        known = self.store.get(key)
        uid = header.metadata.uid or ""
        if revision:
            if known is not None and known.revision >= revision:
                if self._upgrading and known.revision == revision:
                    self.store.put(key, CacheEntry(self._kept(raw, header), revision, uid))
                return
            if self._floors and self._floors.get(key, 0) >= revision:
                return
        if self._gone and uid in self._gone:
            # It is gone already, but it was there at this revision: nothing older may come back either.
            self._raise_floor(key, revision)
            if known is not None and known.uid != uid:
                self._remove(key, revision)
            return
        entry = CacheEntry(self._kept(raw, header), revision, uid)
        self.store.put(key, entry)
        if self._expected:
            self._fulfil(key, revision, header.metadata.resource_version or "")
        self._tell(ObjectChange(key, known, entry, initial))

    def _kept(self, raw: bytes, header: ObjectHeader) -> bytes:
        if self._transform is None:
            return raw
        try:
            return self._transform(raw, header)
        except Exception:
            logger.exception("%s: the transform failed on %s", self.gvk.kind, header.metadata.name)
            return raw

    def _remove(self, key: ObjectKey, revision: int, uid: str = "") -> None:
        if uid and not self.filtered:
            self._gone.pop(uid, None)
        known = self.store.get(key)
        if known is None or (revision and known.revision > revision):
            return
        self._raise_floor(key, max(revision, known.revision))
        self.store.pop(key)
        if self._expected:
            self._fulfil(key, revision, "")
        self._tell(ObjectChange(key, known, None))

    def _raise_floor(self, key: ObjectKey, revision: int) -> None:
        """An object is gone from here, and the watch or a late answer could still bring older versions."""
        if revision > self.revision(key.namespace):
            self._floors[key] = max(revision, self._floors.get(key, 0))

    def _fulfil(self, key: ObjectKey, revision: int, resource_version: str) -> None:
        expected = self._expected.get(key)
        if expected is not None and (
            revision >= expected.revision
            if expected.revision
            else resource_version == expected.resource_version
        ):
            del self._expected[key]
            self._moved()

    def _tell(self, change: ObjectChange) -> None:
        for handler in self._handlers:
            self._call(handler, change)

    def _call(self, handler: ResourceEventHandler, change: ObjectChange) -> None:
        try:
            handler(change)
        except Exception:
            logger.exception("%s: a handler failed on %s", self.gvk.kind, change.key)

    def _moved(self) -> None:
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None

    def _progressed(self, follower: _NamespaceReflector) -> None:
        if self._floors:
            for key in [key for key, floor in self._floors.items() if floor <= self.revision(key.namespace)]:
                del self._floors[key]
        if self._expected:
            done = [
                key
                for key, each in self._expected.items()
                if each.by_progress and each.revision <= self.revision(key.namespace)
            ]
            for key in done:
                del self._expected[key]
        if self._upgrading and self.synced:
            self._upgrading = False
        self._moved()

    def _forget_deletions(self, seen: set[ObjectKey], namespace: str, revision: int) -> None:
        """A state newer than the last version of an object, and without it, knows of its end."""
        for uid, (key, known) in list(self._gone.items()):
            if (
                namespace in ("", key.namespace)
                and key not in seen
                and known is not None
                and known <= revision
            ):
                del self._gone[uid]

    def _forget_revisions(self, namespace: str) -> None:
        """The server counts anew: nothing that is known can be compared any more."""
        for key, entry in list(self.store.entries(namespace or None)):
            self.store.put(key, CacheEntry(entry.raw, 0, entry.uid))
        self._gone.clear()
        self._gone_unseen.clear()
        self._floors.clear()
        self._expected.clear()


class _NamespaceReflector:
    """The sink of one reflector: the part of an informer that lies in one namespace, or all of it."""

    def __init__(
        self,
        informer: Informer,
        namespace: str,
        source: ListerWatcher,
        rng: random.Random | None,
        stream_initial_state: bool,
    ) -> None:
        self.namespace = namespace
        self.revision = 0
        self._informer = informer
        self._seen: set[ObjectKey] | None = None
        name = informer.gvk.kind + (f" in {namespace}" if namespace else "")
        self.reflector = Reflector(
            name,
            source,
            self,
            rng=rng,
            backoff=Backoff(rng=rng),
            stream_initial_state=stream_initial_state,
        )

    def begin(self) -> None:
        """The state is about to be told anew."""
        self._seen = set()

    def initial(self, raw: bytes, header: ObjectHeader) -> None:
        """One object of the state."""
        meta = header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        assert self._seen is not None
        self._seen.add(key)
        self._informer._put(key, raw, header, _number(meta.resource_version), initial=True)

    def replace(self, resource_version: str) -> bool:
        """The state has been told: what was not in it, and is not newer than it, is gone."""
        seen, self._seen = self._seen or set(), None
        revision = _number(resource_version)
        informer = self._informer
        if revision and revision < self.revision:
            informer._forget_revisions(self.namespace)
            self.revision = 0
            return False
        for key, _ in list(informer.store.entries(self.namespace or None)):
            if key not in seen:
                informer._remove(key, revision)
        if informer._gone:
            informer._forget_deletions(seen, self.namespace, revision)
        self.progress(resource_version)
        return True

    def event(self, event: RawEvent) -> None:
        """One change."""
        meta = event.header.metadata
        key = ObjectKey(meta.namespace or "", meta.name or "")
        revision = _number(meta.resource_version)
        if event.type == "DELETED":
            if self._seen is not None:
                self._seen.discard(key)
            self._informer._remove(key, revision, meta.uid or "")
        else:
            if self._seen is not None:
                self._seen.add(key)
            self._informer._put(key, event.raw, event.header, revision)

    def progress(self, resource_version: str) -> None:
        """Everything up to this revision has been told."""
        self.revision = max(self.revision, _number(resource_version))
        self._informer._progressed(self)


def _number(resource_version: str | None) -> int:
    """Revisions are decimal numbers that grow; a server that has others gets no order from us."""
    return int(resource_version) if resource_version and resource_version.isdecimal() else 0
