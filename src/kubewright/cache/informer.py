"""One kind, followed and kept: the meeting point of watches, reads and our own writes.

An informer runs a reflector per namespace it covers, all of them filling one store, and calls its handlers for
each change, in order. Our own writes go in as well, the moment their answer arrives (`observe`), so a read after
a write never shows an older version and handlers learn of it at once; when the watch tells the same thing a
little later it is no longer news. Revisions decide what is newer, so it does not matter which side comes first.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.codec import ObjectHeader, decoder
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.selectors import Selector
from kubewright.client.raw import RawEvent

from .reflector import Backoff, Reflector, Source
from .store import Change, Entry, Key, Store, labels_of, strip_managed_fields

logger = logging.getLogger(__name__)

Handler = Callable[[Change], None]
Transform = Callable[[bytes, ObjectHeader], bytes]
"""Changes the bytes of an object before it is kept; removing what nobody reads saves memory."""

_read_header = decoder(ObjectHeader).decode


class Informer:
    """A kind that is followed. Made and owned by a `Cache`."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        sources: dict[str, Source],
        *,
        metadata_only: bool = False,
        labels: Selector | None = None,
        filtered_by_fields: bool = False,
        transform: Transform | None = strip_managed_fields,
        rng: random.Random | None = None,
        stream_initial_state: bool = True,
    ) -> None:
        self.gvk = gvk
        self.metadata_only = metadata_only
        self.store = Store()
        self._labels = labels
        self._filtered_by_fields = filtered_by_fields
        self._transform = transform
        self._handlers: list[Handler] = []
        self._followers = [
            _Follower(self, namespace, source, rng, stream_initial_state)
            for namespace, source in sources.items()
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._deleted_here: dict[Key, str] = {}
        """Objects that we deleted and the watch has not yet told about, by uid."""
        self._advanced: asyncio.Event | None = None

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

    @property
    def synced(self) -> bool:
        """Whether the initial state is complete."""
        return all(each.reflector.synced.is_set() for each in self._followers)

    async def wait_for_sync(self) -> None:
        """Wait for the initial state."""
        for each in self._followers:
            await each.reflector.synced.wait()

    @property
    def last_error(self) -> BaseException | None:
        """Why it cannot follow at the moment, if it cannot."""
        return next(
            (each.reflector.last_error for each in self._followers if each.reflector.last_error), None
        )

    def poke(self) -> None:
        """Try again now, where a reflector waits after a failure."""
        for each in self._followers:
            each.reflector.poke()

    # Readers

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` for every change; first, at once, for everything that is known already."""
        for key, entry in list(self.store.entries()):
            handler(Change(key, None, entry, initial=True))
        self._handlers.append(handler)

    def remove_handler(self, handler: Handler) -> None:
        """Stop calling it."""
        self._handlers.remove(handler)

    def resync(self) -> None:
        """Tell every handler about everything again, as a change of nothing."""
        for key, entry in list(self.store.entries()):
            self._tell(Change(key, entry, entry, initial=True))

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are in the store."""
        return any(each.namespace in ("", namespace) for each in self._followers)

    def revision(self, namespace: str) -> int:
        """Up to which revision the store knows everything in a namespace."""
        return max(
            (each.revision for each in self._followers if each.namespace in ("", namespace)), default=0
        )

    async def wait_for_revision(self, namespace: str, revision: int) -> None:
        """Wait until the watch has told everything up to a revision."""
        while self.revision(namespace) < revision:
            if self._advanced is None:
                self._advanced = asyncio.Event()
            await self._advanced.wait()

    # Our own writes

    def observe(self, raw: bytes) -> bool:
        """Take in the server's answer to a write of ours. Whether that could be done here and now.

        It cannot where a field selector decides what belongs here: then wait for the watch.
        """
        header = _read_header(raw)
        meta = header.metadata
        key = Key(meta.namespace or "", meta.name or "")
        revision = _number(meta.resource_version)
        if not revision:
            return False
        if not self.covers(key.namespace) or revision <= self.revision(key.namespace):
            return True
        if self._filtered_by_fields:
            return False
        if self._labels is not None and not self._labels.matches(meta.labels or {}):
            self._remove(key, revision)
        else:
            self._put(key, raw, header, revision)
        return True

    def observe_deletion(self, key: Key, uid: str) -> None:
        """Take in that the server has removed an object for us."""
        entry = self.store.get(key)
        if entry is not None and (not uid or entry.uid == uid):
            self._deleted_here[key] = entry.uid
            self.store.pop(key)
            self._tell(Change(key, entry, None))

    # What the reflectors tell

    def _put(self, key: Key, raw: bytes, header: ObjectHeader, revision: int, initial: bool = False) -> None:
        known = self.store.get(key)
        uid = header.metadata.uid or ""
        if known is not None and known.revision >= revision and revision:
            return
        deleted = self._deleted_here.get(key)
        if deleted is not None:
            if deleted == uid:
                return
            del self._deleted_here[key]
        kept = raw if self._transform is None else self._transform(raw, header)
        entry = Entry(kept, revision, uid)
        self.store.put(key, entry)
        self._tell(Change(key, known, entry, initial))

    def _remove(self, key: Key, revision: int, uid: str = "") -> None:
        if self._deleted_here.get(key) is not None and self._deleted_here[key] == uid:
            del self._deleted_here[key]
        known = self.store.get(key)
        if known is None or known.revision > revision:
            return
        self.store.pop(key)
        self._tell(Change(key, known, None))

    def _tell(self, change: Change) -> None:
        for handler in self._handlers:
            try:
                handler(change)
            except Exception:
                logger.exception("%s: a handler failed on %s", self.gvk.kind, change.key)

    def _moved(self) -> None:
        if self._advanced is not None:
            self._advanced.set()
            self._advanced = None


class _Follower:
    """The sink of one reflector: the part of an informer that lies in one namespace, or all of it."""

    def __init__(
        self,
        informer: Informer,
        namespace: str,
        source: Source,
        rng: random.Random | None,
        stream_initial_state: bool,
    ) -> None:
        self.namespace = namespace
        self.revision = 0
        self._informer = informer
        self._seen: set[Key] | None = None
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
        key = Key(meta.namespace or "", meta.name or "")
        assert self._seen is not None
        self._seen.add(key)
        self._informer._put(key, raw, header, _number(meta.resource_version), initial=True)

    def replace(self, resource_version: str) -> None:
        """The state has been told: what was not in it, and is not newer than it, is gone."""
        seen, self._seen = self._seen or set(), None
        revision = _number(resource_version)
        known: Iterable[tuple[Key, Entry]] = self._informer.store.entries(self.namespace or None)
        for key, _ in list(known):
            if key not in seen:
                self._informer._remove(key, revision)
        deleted = self._informer._deleted_here
        for key in [key for key in deleted if key not in seen and self.namespace in ("", key.namespace)]:
            del deleted[key]
        self.progress(resource_version)

    def event(self, event: RawEvent) -> None:
        """One change."""
        meta = event.header.metadata
        key = Key(meta.namespace or "", meta.name or "")
        revision = _number(meta.resource_version)
        if event.type == "DELETED":
            self._informer._remove(key, revision, meta.uid or "")
        else:
            self._informer._put(key, event.raw, event.header, revision)

    def progress(self, resource_version: str) -> None:
        """Everything up to this revision has been told."""
        self.revision = max(self.revision, _number(resource_version))
        self._informer._moved()


def _number(resource_version: str | None) -> int:
    """Revisions are decimal numbers that grow; a server that has others gets no order from us."""
    return int(resource_version) if resource_version and resource_version.isdecimal() else 0


def matches_labels(entry: Entry, selector: Selector) -> bool:
    """Whether an object's labels match."""
    return selector.matches(labels_of(entry))


def owner_uids(entry: Entry) -> Iterable[str]:
    """An indexer: every owner of an object, by uid."""
    return [owner.uid for owner in entry.header().metadata.owner_references or ()]


def field_value(*path: str) -> Callable[[Entry], Iterable[str]]:
    """An indexer: the value of one field, printed as a field selector prints it."""

    def indexer(entry: Entry) -> Iterable[str]:
        value: Any = entry.decode(dict)  # type: ignore[type-var]
        for step in path:
            if not isinstance(value, dict) or step not in value:
                return ()
            value = value[step]
        return (str(value).lower() if isinstance(value, bool) else str(value),)

    return indexer
