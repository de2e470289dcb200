"""Shared in-process informers: the state of stored resources for admission, authorization and controllers.

    informers = Informers(server)
    informers.add_handler("", "secrets", handler)         # existing objects as ADDED, then each change
    namespace = await informers.get("", "namespaces", "default")
    roles = await informers.list("rbac.authorization.k8s.io", "clusterroles")

There is one informer per resource, started when the first consumer asks for it. It is fed by the server's own
watch on storage: no requests are made, the metadata of each event is decoded once, and whole objects are
retained only for resources that a consumer reads.

Consistency:

- Reads return a state that includes every write that this server has acknowledged (`wait_for_revision`).
- When the watch on storage is lost, every informer lists again and reports the differences to its handlers;
  until all have done so `synced` is false, and so is the server's readiness. `wait_until_current` is for
  consumers that must not decide on the state before the interruption.
- A stored value that cannot be decoded counts as deleted. It is logged and counted, and so is an exception in
  a handler; neither affects other objects or other handlers.

Objects returned by an informer are shared: do not change them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from sys import intern
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from prometheus_client import Counter

from kubewright.api.errors import ServiceUnavailable
from kubewright.storage.contract import StorageError

from .object_metadata import Metadata, metadata_of

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.resource import Resource
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.watch.cache import WatchCache, WatchCacheEvent
    from kubewright.storage.contract import KeyValue

logger = logging.getLogger("kubewright.controlplane")

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

_decode = msgspec.json.Decoder().decode
_RETRY = 0.5
"""Seconds between attempts to list a resource."""


def decode_object(value: bytes, revision: int) -> Object:
    """Decode a stored object and set its resourceVersion."""
    obj: Object = _decode(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


class ResourceEvent:
    """One change of one object. Decoded parts are shared by all handlers."""

    __slots__ = (
        "_new",
        "_object",
        "_old",
        "initial",
        "metadata",
        "name",
        "namespace",
        "old_metadata",
        "resource",
    )

    def __init__(
        self,
        resource: Resource,
        key: Key,
        metadata: Metadata,
        old_metadata: Metadata | None,
        *,
        new: bytes | None,
        old: bytes | None,
        initial: bool = False,
    ) -> None:
        self.resource = resource
        self.namespace, self.name = key
        self.metadata = metadata
        """The current metadata; of a deleted object, the last."""
        self.old_metadata = old_metadata
        self.initial = initial
        """Part of a list, rather than a change that happened now."""
        self._new = new
        self._old = old
        self._object: Object | None = None

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED."""
        if self._new is None:
            return "DELETED"
        return "ADDED" if self.old_metadata is None else "MODIFIED"

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def raw(self) -> bytes | None:
        """The stored bytes, of a deleted object the last; `None` if they are not known."""
        return (self._new if self._new is not None else self._old) or None

    @property
    def has_object(self) -> bool:
        """Whether `object` can be read."""
        return self.raw is not None

    @property
    def object(self) -> Object:
        """The object in its stored version; of a deleted object, the last state. Do not change it."""
        if self._object is None:
            raw = self.raw
            assert raw is not None, "the handler was added with needs='metadata'"
            self._object = decode_object(raw, self.metadata.revision)
        return self._object

    @property
    def old_object(self) -> Object | None:
        """The previous state; `None` if there was none or it is not known."""
        if self._old is None or self.old_metadata is None or self._new is None:
            return None
        return decode_object(self._old, self.old_metadata.revision)


Handler = Callable[[ResourceEvent], object]
Needs = Literal["metadata", "events", "objects"]
"""What a handler reads: only metadata; also the object of an event (`object` must not be used for an object
that is found deleted after an interruption: `has_object` is false then); or always the object, for which
the informer retains all objects of the resource.
"""


class Informer:
    """The objects of one resource. Obtain it from `Informers`."""

    def __init__(self, informers: Informers, store: ResourceStore) -> None:
        self._informers = informers
        self.store = store
        self.synced = False
        self.generation = 0
        """Grows with every change; consumers compare it to reuse what they derived from the objects."""
        self.retains_objects = False
        self._metadata: dict[Key, Metadata] = {}
        self._raw: dict[Key, bytes] = {}
        self._objects: dict[Key, Object] = {}
        self._namespaces: dict[str, dict[str, None]] = {}
        self._handlers: list[Handler] = []
        self._joining: list[Handler] = []
        """Handlers that have not received the existing objects yet."""
        self._buffer: list[WatchCacheEvent] = []
        """Changes that arrived while the resource is being listed."""
        self._listing: asyncio.Task[None] | None = None
        self._listed_revision = 0
        """The revision of the last list; a watch that resumes repeats earlier changes."""
        self._synced_event = asyncio.Event()

    # Reading

    @property
    def fresh(self) -> bool:
        """Whether every write through this server is included."""
        return self.synced and self.store.written <= self._informers.dispatcher.revision

    async def wait_for_sync(self) -> None:
        """Wait until the resource has been listed."""
        while not self.synced:
            await self._synced_event.wait()

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until a write with this revision is included."""
        await self.wait_for_sync()
        await self._informers.dispatcher.wait_for_revision(revision)

    def get(self, name: str, *, namespace: str = "") -> Object | None:
        """Return one object, or `None`."""
        key = (namespace, name)
        found = self._objects.get(key)
        if found is None:
            raw = self._raw.get(key)
            if raw is None:
                return None
            found = self._objects[key] = decode_object(raw, self._metadata[key].revision)
        return found

    def list(self, *, namespace: str = "") -> list[Object]:
        """Return all objects, or those of one namespace, ordered by name."""
        if namespace:
            keys = [(namespace, name) for name in sorted(self._namespaces.get(namespace, ()))]
        else:
            keys = sorted(self._raw)
        found = (self.get(name, namespace=where) for where, name in keys)
        return [obj for obj in found if obj is not None]

    def __len__(self) -> int:
        return len(self._metadata)

    def __contains__(self, key: Key) -> bool:
        return key in self._metadata

    # Handlers

    def add_handler(self, handler: Handler, *, needs: Needs = "objects") -> None:
        """Call `handler` for each existing object (as ADDED) and then for each change, in order."""
        if needs == "objects":
            self.retain_objects()
        self._joining.append(handler)
        if self.synced:
            if needs == "metadata" or self.retains_objects or not self._metadata:
                self._replay()
            else:
                self.relist()

    def remove_handler(self, handler: Handler) -> None:
        """Stop calling a handler."""
        for handlers in (self._handlers, self._joining):
            if handler in handlers:
                handlers.remove(handler)

    def retain_objects(self) -> None:
        """Keep whole objects from now on, not only their metadata."""
        if not self.retains_objects:
            self.retains_objects = True
            if self.synced and self._metadata:
                self.relist()

    def _replay(self) -> None:
        joining, self._joining = self._joining, []
        for key, metadata in list(self._metadata.items()):
            self._call(joining, self._existing(key, metadata, self._raw.get(key, b"")))
        self._handlers += joining

    def _existing(self, key: Key, metadata: Metadata, raw: bytes) -> ResourceEvent:
        return ResourceEvent(self.store.resource, key, metadata, None, new=raw, old=None, initial=True)

    def _call(self, handlers: Iterable[Handler], event: ResourceEvent) -> None:
        for handler in handlers:
            try:
                handler(event)
            except Exception:
                self._informers.count_handler_error(self.store.resource)
                logger.exception(
                    "event handler failed",
                    extra={"resource": str(event.resource.group_resource), "object": "/".join(event.key)},
                )

    # Following storage

    def lose(self) -> None:
        """The watch on storage was interrupted: the state may be out of date until it is listed again."""
        self.synced = False
        self._synced_event.clear()
        self._buffer.clear()
        if self._listing is not None:
            self._listing.cancel()
            self._listing = None

    def relist(self) -> None:
        """List the resource and report what differs from the known state."""
        self.lose()
        self._listing = asyncio.get_running_loop().create_task(self._list(), name="informer list")

    async def stop(self) -> None:
        """Stop listing."""
        task, self._listing = self._listing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _list(self) -> None:
        while True:
            store = self.store
            try:
                page = await store.storage.list(store.prefix)
                break
            except StorageError as error:
                logger.warning(
                    "resource cannot be listed; retrying",
                    extra={"resource": str(store.resource.group_resource), "error": str(error)},
                )
                await asyncio.sleep(_RETRY)
        self._replace(page.items, page.revision)
        self._listing = None

    def _replace(self, items: Sequence[KeyValue], revision: int) -> None:
        """Take a listed state; changes up to its revision are included in it."""
        store = self.store
        joining, self._joining = self._joining, []
        listed = set()
        for item in items:
            key = self._key(item.key)
            known = self._metadata.get(key)
            if known is None or known.revision != item.mod_revision:
                self._put(key, item.value, item.mod_revision, old=None, initial=True)
            elif self.retains_objects:
                self._retain(key, item.value)
            listed.add(key)
            if joining and (metadata := self._metadata.get(key)) is not None:
                self._call(joining, self._existing(key, metadata, item.value))
        self._handlers += joining
        for key in [key for key in self._metadata if key not in listed]:
            self._delete(key, revision, old=None)
        self.synced = True
        self._listed_revision = revision
        buffered, self._buffer = self._buffer, []
        for change in buffered:
            self._apply(change)
        logger.debug(
            "listed resource",
            extra={
                "resource": str(store.resource.group_resource),
                "objects": len(items),
                "revision": revision,
            },
        )
        self._synced_event.set()

    def _key(self, key: str) -> Key:
        rest = key[len(self.store.prefix) :]
        if not self.store.resource.namespaced:
            return "", rest
        namespace, _, name = rest.rpartition("/")
        return namespace, name

    def handle(self, change: WatchCacheEvent) -> None:
        """Take one change from the watch on storage."""
        if self.synced:
            self._apply(change)
        elif self._listing is not None:
            self._buffer.append(change)

    def _apply(self, change: WatchCacheEvent) -> None:
        event = change.event
        if event.revision <= self._listed_revision:
            return
        key = (change.namespace, change.name)
        old = event.previous.value if event.previous is not None else None
        if event.value is None:
            self._delete(key, event.revision, old=old)
        else:
            self._put(key, event.value, event.revision, old=old)

    def _put(
        self, key: Key, value: bytes, revision: int, *, old: bytes | None, initial: bool = False
    ) -> None:
        try:
            metadata = metadata_of(value, revision)
        except msgspec.DecodeError as error:
            resource = self.store.resource
            self._informers.count_undecodable(resource)
            logger.error(
                "stored object cannot be decoded; treating it as deleted",
                extra={
                    "resource": str(resource.group_resource),
                    "object": "/".join(key),
                    "error": str(error),
                },
            )
            self._delete(key, revision, old=None)
            return
        known = self._metadata.get(key)
        if known is None:
            key = (intern(key[0]), metadata.name if metadata.name == key[1] else key[1])
        self._metadata[key] = metadata
        old = self._raw.get(key, old)
        if self.retains_objects:
            self._retain(key, value)
        self._emit(
            ResourceEvent(self.store.resource, key, metadata, known, new=value, old=old, initial=initial)
        )

    def _retain(self, key: Key, value: bytes) -> None:
        self._raw[key] = value
        self._objects.pop(key, None)
        self._namespaces.setdefault(key[0], {})[key[1]] = None

    def _delete(self, key: Key, revision: int, *, old: bytes | None) -> None:
        known = self._metadata.pop(key, None)
        old = self._raw.pop(key, old)
        self._objects.pop(key, None)
        names = self._namespaces.get(key[0])
        if names is not None:
            names.pop(key[1], None)
            if not names:
                del self._namespaces[key[0]]
        if known is not None:
            self._emit(ResourceEvent(self.store.resource, key, known, known, new=None, old=old))

    def _emit(self, event: ResourceEvent) -> None:
        self.generation += 1
        if self._handlers:
            self._call(self._handlers, event)


class Informers:
    """The informers of one server, by group and plural name."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.dispatcher = server.dispatcher
        self._informers: dict[tuple[str, str], Informer] = {}
        self._by_watch_cache: dict[WatchCache, Informer] = {}
        self._handlers: dict[tuple[str, str], list[tuple[Handler, Needs]]] = {}
        """Handlers of resources that are not served yet, or may be served again."""
        self._all_handlers: list[Handler] = []
        self._resource_callbacks: list[Callable[[], object]] = []
        self._look_scheduled = False
        labels = ("group", "resource")
        self._undecodable = Counter(
            "kubewright_informer_undecodable_objects",
            "Stored objects that an informer could not decode.",
            labels,
            registry=server.metrics.registry,
        )
        self._handler_errors = Counter(
            "kubewright_informer_handler_errors",
            "Exceptions raised by event handlers of informers.",
            labels,
            registry=server.metrics.registry,
        )
        self.dispatcher.listeners.append(self)

    # Reading

    async def informer(self, group: str, plural: str) -> Informer | None:
        """Return the informer of a resource once it includes every write through this server.

        `None` if the resource is not served. The informer keeps whole objects.
        """
        found = self._informers.get((group, plural))
        if found is not None and found.fresh and found.retains_objects:
            return found
        found = self._start(group, plural, retain_objects=True)
        if found is None:
            return None
        try:
            async with asyncio.timeout(self.server.freshness_timeout):
                await found.wait_for_revision(found.store.written)
        except TimeoutError:
            raise _out_of_date() from None
        return found

    async def get(self, group: str, plural: str, name: str, *, namespace: str = "") -> Object | None:
        """Return one object, or `None`. Do not change it."""
        found = await self.informer(group, plural)
        return found.get(name, namespace=namespace) if found is not None else None

    def contains(self, group: str, plural: str, name: str, *, namespace: str = "") -> bool:
        """Whether an object is known to the informer of a resource."""
        found = self._informers.get((group, plural))
        return found is not None and (namespace, name) in found

    async def list(self, group: str, plural: str, *, namespace: str = "") -> list[Object]:
        """Return all objects of a resource, or those of one namespace, ordered by name."""
        found = await self.informer(group, plural)
        return found.list(namespace=namespace) if found is not None else []

    async def namespace(self, name: str) -> Object | None:
        """Return a namespace; one that is not known here yet is read from storage."""
        found = await self.get("", "namespaces", name)
        return found if found is not None else await self.read("", "namespaces", name)

    async def wait_for_object(
        self, group: str, plural: str, name: str, *, namespace: str = "", timeout: float
    ) -> Object | None:
        """Return an object that another client may be about to create; `None` if it is not in time."""
        informer = await self.informer(group, plural)
        if informer is None:
            return None
        found = informer.get(name, namespace=namespace)
        if found is not None:
            return found
        found = await self.read(group, plural, name, namespace=namespace)
        if found is not None or timeout <= 0:
            return found
        created: asyncio.Future[Object] = asyncio.get_running_loop().create_future()

        def handler(event: ResourceEvent) -> None:
            if event.key == (namespace, name) and event.type != "DELETED" and not created.done():
                created.set_result(event.object)

        informer._handlers.append(handler)
        try:
            found = informer.get(name, namespace=namespace)
            if found is not None:
                return found
            async with asyncio.timeout(timeout):
                return await created
        except TimeoutError:
            return None
        finally:
            informer.remove_handler(handler)

    async def read(self, group: str, plural: str, name: str, *, namespace: str = "") -> Object | None:
        """Read one object from storage."""
        store = self.server.store(group, plural)
        item = await store.storage.get(store.key(namespace, name)) if store is not None else None
        return decode_object(item.value, item.mod_revision) if item is not None else None

    async def read_all(self, group: str, plural: str, *, namespace: str = "") -> Sequence[Object]:
        """Read all objects of a resource, or of one namespace, from storage."""
        store = self.server.store(group, plural)
        if store is None:
            return []
        page = await store.storage.list(store.range(namespace))
        return [decode_object(item.value, item.mod_revision) for item in page.items]

    # Consistency

    @property
    def synced(self) -> bool:
        """Whether every informer has been listed and no change in storage is delayed."""
        return self.dispatcher.connected and all(each.synced for each in self._informers.values())

    async def wait_until_current(self) -> None:
        """Wait until no change in storage is delayed; raises `ServiceUnavailable` after a timeout.

        Costs nothing while the watch on storage is connected.
        """
        if self.dispatcher.connected:
            return
        try:
            async with asyncio.timeout(self.server.freshness_timeout):
                await self.dispatcher.wait_until_connected()
        except TimeoutError:
            raise _out_of_date() from None

    async def wait_for_sync(self, resource: GroupResource | None = None) -> None:
        """Wait until a resource, or every resource with an informer, has been listed."""
        self._look()
        for key, each in list(self._informers.items()):
            if resource is None or key == (resource.group, resource.resource):
                await each.wait_for_sync()

    async def catch_up(self) -> None:
        """Wait until every handler has received every change that is stored by now."""
        await self.wait_for_sync()
        await self.dispatcher.catch_up()

    async def wait_until(
        self, group: str, plural: str, condition: Callable[[Informer], bool], *, timeout: float
    ) -> bool:
        """Wait until a condition holds for the informer of a resource; false after the timeout."""
        informer = self._start(group, plural)
        if informer is None:
            return False
        changed = asyncio.Event()

        def handler(event: ResourceEvent) -> None:
            changed.set()

        informer.add_handler(handler, needs="metadata")
        try:
            async with asyncio.timeout(timeout):
                await informer.wait_for_sync()
                while not condition(informer):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return False
        finally:
            informer.remove_handler(handler)
        return True

    # Handlers

    def add_handler(self, group: str, plural: str, handler: Handler, *, needs: Needs = "objects") -> None:
        """Call `handler` for every object and change of a resource, also if it is served only later."""
        self._handlers.setdefault((group, plural), []).append((handler, needs))
        found = self._informers.get((group, plural))
        if found is not None:
            found.add_handler(handler, needs=needs)
        else:
            self._start(group, plural)

    def remove_handler(self, group: str, plural: str, handler: Handler) -> None:
        """Stop calling a handler."""
        handlers = self._handlers.get((group, plural), [])
        handlers[:] = [entry for entry in handlers if entry[0] != handler]
        found = self._informers.get((group, plural))
        if found is not None:
            found.remove_handler(handler)

    def add_handler_for_all(self, handler: Handler) -> None:
        """Call `handler` for the metadata of every object of every resource."""
        self._all_handlers.append(handler)
        for informer in self._informers.values():
            informer.add_handler(handler, needs="metadata")
        for store in list(self.server.stores):
            self._start(store.resource.group, store.resource.plural)

    def remove_handler_for_all(self, handler: Handler) -> None:
        """Stop calling a handler that was added for every resource."""
        self._all_handlers.remove(handler)
        for informer in self._informers.values():
            informer.remove_handler(handler)

    def add_resource_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` when resources are added to or removed from the server."""
        self._resource_callbacks.append(callback)

    def remove_resource_callback(self, callback: Callable[[], object]) -> None:
        """Stop calling a callback."""
        self._resource_callbacks.remove(callback)

    async def stop(self) -> None:
        """Stop following storage."""
        if self in self.dispatcher.listeners:
            self.dispatcher.listeners.remove(self)
        for informer in self._informers.values():
            await informer.stop()

    # Started informers

    def _start(self, group: str, plural: str, *, retain_objects: bool = False) -> Informer | None:
        store = self.server.store(group, plural)
        found = self._informers.get((group, plural))
        if store is None or "list" not in store.resource.verbs or not self.dispatcher.running:
            return None
        if found is None:
            found = self._informers[group, plural] = Informer(self, store)
            self._by_watch_cache[store.watch_cache] = found
            found.retains_objects = retain_objects
            for handler, needs in self._handlers.get((group, plural), ()):
                found.add_handler(handler, needs=needs)
            for handler in self._all_handlers:
                found.add_handler(handler, needs="metadata")
            found.relist()
        elif found.store is not store:
            self._by_watch_cache.pop(found.store.watch_cache, None)
            found.store = store
            self._by_watch_cache[store.watch_cache] = found
        if retain_objects:
            found.retain_objects()
        return found

    def count_undecodable(self, resource: Resource) -> None:
        """Count a stored object that cannot be decoded."""
        self._undecodable.labels(resource.group, resource.plural).inc()

    def count_handler_error(self, resource: Resource) -> None:
        """Count an exception in a handler."""
        self._handler_errors.labels(resource.group, resource.plural).inc()

    # The server's watch on storage

    def on_resource_added(self, cache: WatchCache) -> None:
        """A resource is served from now on; its store is registered after this call."""
        self._look_later()

    def on_resource_removed(self, cache: WatchCache) -> None:
        """A resource is no longer served, or is about to be replaced by another version of it."""
        self._look_later()

    def _look_later(self) -> None:
        if not self._look_scheduled and self.dispatcher.running:
            self._look_scheduled = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Start informers of new resources, and drop those of resources that are no longer served."""
        if not self._look_scheduled:
            return
        self._look_scheduled = False
        for key, informer in list(self._informers.items()):
            store = self.server.store(*key)
            if store is None:
                del self._informers[key]
                self._by_watch_cache.pop(informer.store.watch_cache, None)
                informer.lose()
            elif store is not informer.store:
                self._start(*key)
        for store in list(self.server.stores):
            key = (store.resource.group, store.resource.plural)
            if key not in self._informers and (self._all_handlers or key in self._handlers):
                self._start(*key)
        for callback in self._resource_callbacks:
            callback()

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """An object was written or deleted."""
        informer = self._by_watch_cache.get(cache)
        if informer is None:
            if not self._look_scheduled:
                return
            self._look()
            informer = self._by_watch_cache.get(cache)
            if informer is None:
                return
        informer.handle(event)

    def on_watch_lost(self) -> None:
        """The watch on storage has ended: no informer is up to date."""
        for informer in self._informers.values():
            informer.lose()

    def on_watch_restarted(self) -> None:
        """A new watch has begun: list every resource."""
        for informer in self._informers.values():
            informer.relist()


def _out_of_date() -> ServiceUnavailable:
    return ServiceUnavailable("storage is unreachable or its watch has not caught up; try again later")


__all__ = ["Handler", "Informer", "Informers", "Key", "Object", "ResourceEvent", "decode_object"]
