"""What happens to objects, for parts of the control plane that react to it.

`Changes` follows storage through the server's own feed: nothing is polled, nothing goes over a network, and
kinds that are defined later are followed from the moment they are served. Every follower first gets what is
already there as `ADDED`, then each change once, in order. A resource that is replaced (a definition was
changed) has the same objects as before and is followed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.storage.contract import StorageError

if TYPE_CHECKING:
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.watch.cache import WatchCache, WatchCacheEvent

logger = logging.getLogger("kubewright.controlplane")

Object = dict[str, Any]


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """The parts of an object's metadata that controllers look at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class _Holder(msgspec.Struct):
    metadata: Metadata


_metadata = msgspec.json.Decoder(_Holder).decode
_object = msgspec.json.Decoder().decode


def metadata_of(value: bytes) -> Metadata:
    """The metadata of a stored object, without reading the rest of it."""
    return _metadata(value).metadata


class ObjectChange:
    """One change of one object: `new` is what is there now, `old` what was before (stored bytes)."""

    __slots__ = ("name", "namespace", "new", "old", "revision", "store", "type")

    def __init__(
        self,
        store: ResourceStore,
        namespace: str,
        name: str,
        old: bytes | None,
        new: bytes | None,
        revision: int,
    ) -> None:
        self.store = store
        self.namespace = namespace
        self.name = name
        self.old = old
        self.new = new
        self.revision = revision
        self.type = "DELETED" if new is None else "ADDED" if old is None else "MODIFIED"

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def metadata(self) -> Metadata:
        """The metadata as it is, or as it was last."""
        value = self.new if self.new is not None else self.old
        assert value is not None
        return metadata_of(value)

    @property
    def object(self) -> Object:
        """The object as it is, or as it was last, in its stored version."""
        value = self.new if self.new is not None else self.old
        assert value is not None
        decoded: Object = _object(value)
        decoded["metadata"]["resourceVersion"] = str(self.revision)
        return decoded


Handler = Callable[[ObjectChange], object]


class _Followed:
    """How far one resource has been followed."""

    __slots__ = ("buffer", "read_at", "store")

    def __init__(self, store: ResourceStore) -> None:
        self.store = store
        self.read_at: int | None = None
        self.buffer: list[WatchCacheEvent] = []


class Changes:
    """Hands changes to those who asked. `start` once the server has started."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self._everything: list[Handler] = []
        self._handlers: dict[tuple[str, str], list[Handler]] = {}
        self._followed: dict[WatchCache, _Followed] = {}
        self._replaced: dict[tuple[str, str], _Followed] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._on_kinds: list[Callable[[], object]] = []
        self._on_lost: list[Callable[[], object]] = []
        self._kinds_changed = False
        self._running = False

    def follow(self, group: str, plural: str, handler: Handler) -> None:
        """Call `handler` for every change of one resource. Ask before `start`."""
        self._handlers.setdefault((group, plural), []).append(handler)

    def follow_all(self, handler: Handler) -> None:
        """Call `handler` for every change of every resource."""
        self._everything.append(handler)

    def on_kinds(self, callback: Callable[[], object]) -> None:
        """Call `callback` when resources come or go."""
        self._on_kinds.append(callback)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when changes may have been missed; what is there comes again as `ADDED`."""
        self._on_lost.append(callback)

    async def start(self) -> None:
        """Read what is there and follow from there on."""
        self._running = True
        self.server.dispatcher.listeners.append(self)
        for store in list(self.server.stores):
            self._follow(store)
        await self.ready()

    async def stop(self) -> None:
        """Stop following."""
        self._running = False
        if self in self.server.dispatcher.listeners:
            self.server.dispatcher.listeners.remove(self)
        for task in list(self._reading):
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        self._followed.clear()
        self._replaced.clear()

    async def ready(self) -> None:
        """Wait until what is there has been read."""
        self._look()
        while self._reading:
            await asyncio.gather(*self._reading, return_exceptions=True)

    async def caught_up(self) -> None:
        """Wait until everything that is stored by now has been handed on."""
        await self.ready()
        await self.server.dispatcher.wait_for_revision(await self.server.storage.revision())

    def _wanted(self, store: ResourceStore) -> list[Handler]:
        resource = store.resource
        return self._everything + self._handlers.get((resource.group, resource.plural), [])

    def _follow(self, store: ResourceStore) -> None:
        if store.watch_cache not in self._followed and self._wanted(store) and "list" in store.resource.verbs:
            followed = self._replaced.pop((store.resource.group, store.resource.plural), None)
            if followed is not None:
                followed.store = store
                self._followed[store.watch_cache] = followed
                return
            followed = self._followed[store.watch_cache] = _Followed(store)
            self._read(followed)

    def _read(self, followed: _Followed) -> None:
        task = asyncio.get_running_loop().create_task(self._read_all(followed))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_all(self, followed: _Followed) -> None:
        store = followed.store
        while True:
            try:
                page = await store.storage.list(store.prefix)
                break
            except StorageError as error:
                logger.warning("cannot read %s, trying again: %s", store.resource.plural, error)
                await asyncio.sleep(0.5)
        for item in page.items:
            namespace, name = self._coordinates(store, item.key)
            self._hand_on(ObjectChange(store, namespace, name, None, item.value, item.mod_revision))
        followed.read_at = page.revision
        buffer, followed.buffer = followed.buffer, []
        there = {item.key for item in page.items} if buffer else set()
        for change in buffer:
            # What went away while the resource was being read is not in the list, and followers may know it.
            gone = change.event.value is None and change.event.key not in there
            self._take(followed, change, always=gone)

    def _coordinates(self, store: ResourceStore, key: str) -> tuple[str, str]:
        rest = key[len(store.prefix) :]
        if not store.resource.namespaced:
            return "", rest
        namespace, _, name = rest.rpartition("/")
        return namespace, name

    def _take(self, followed: _Followed, change: WatchCacheEvent, *, always: bool = False) -> None:
        event = change.event
        assert followed.read_at is not None
        if always or event.revision > followed.read_at:
            old = event.previous.value if event.previous is not None else None
            self._hand_on(
                ObjectChange(followed.store, change.namespace, change.name, old, event.value, event.revision)
            )

    def _hand_on(self, change: ObjectChange) -> None:
        for handler in self._wanted(change.store):
            try:
                handler(change)
            except Exception:
                logger.exception("following %s failed", change.store.resource.plural)

    # As a follower of the feed

    def on_resource_added(self, cache: WatchCache) -> None:
        """A resource is served from now on; its store is being made, so look a moment later."""
        self._look_later()

    def _look_later(self) -> None:
        if not self._kinds_changed:
            self._kinds_changed = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        if self._running and self._kinds_changed:
            self._kinds_changed = False
            for store in list(self.server.stores):
                self._follow(store)
            self._replaced.clear()
            for callback in self._on_kinds:
                callback()

    def on_resource_removed(self, cache: WatchCache) -> None:
        """A resource is no longer served, or about to be replaced: the next look tells."""
        followed = self._followed.pop(cache, None)
        if followed is not None:
            resource = followed.store.resource
            self._replaced[resource.group, resource.plural] = followed
        self._look_later()

    def on_event(self, cache: WatchCache, change: WatchCacheEvent) -> None:
        """An object was written or removed."""
        followed = self._followed.get(cache)
        if followed is None:
            for store in list(self.server.stores):
                if store.watch_cache is cache:
                    self._follow(store)
            followed = self._followed.get(cache)
            if followed is None:
                return
        if followed.read_at is None:
            followed.buffer.append(change)
        else:
            self._take(followed, change)

    def on_reset(self) -> None:
        """Changes may have been missed: read everything anew."""
        for followed in self._followed.values():
            followed.read_at = None
            followed.buffer.clear()
            self._read(followed)
        for callback in self._on_lost:
            callback()
