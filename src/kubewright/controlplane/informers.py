"""Shared in-process informers: the state of stored resources for admission, authorization and controllers.

    informers = Informers(server)
    informers.add_handler("", "secrets", handler)         # existing objects as ADDED, then each change
    namespace = await informers.get("", "namespaces", "default")
    roles = await informers.list("rbac.authorization.k8s.io", "clusterroles")

There is one `kubewright.cache.Informer` per resource, started when the first consumer asks for it. It is fed
by the server's own watch on storage (`StorageListWatch`): no requests are made, the metadata of each event is
decoded once, and whole objects are retained only for resources that a consumer reads.

Consistency:

- Reads return a state that includes every write that this server has acknowledged (`wait_for_revision`).
- When the watch on storage is lost, every informer lists again and calls its handlers for every object, as
  informers of client-go do after a list: an object that a controller has written, and that was deleted again
  during the interruption, is not among the differences. Until all have done so `synced` is false, and so is
  the server's readiness. `wait_until_current` is for consumers that must not decide on the state before the
  interruption.
- An object whose stored value cannot be decoded exists: its last state stays, without an event, and reads
  raise an error without one. It is logged and counted, and so is an exception in a handler; neither
  affects other objects or other handlers.

Objects returned by an informer are shared: do not change them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Literal

from prometheus_client import Counter

from kubewright.api.errors import ServiceUnavailable
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.stored_objects import UndecodableObject
from kubewright.cache.informers.informer import Informer
from kubewright.cache.informers.informer_handlers import ResourceEventHandler
from kubewright.cache.stores.store import ObjectChange, ObjectKey, SharedEntry, decode_object
from kubewright.client.backoff import Backoff

from .storage_list_watch import StorageListWatch

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.watch.cache import WatchCache
    from kubewright.apiserver.watch.event import WatchCacheEvent

Needs = Literal["metadata", "events", "objects"]
"""What a handler reads: only metadata; also the object of an event (the entry of an object that is found
deleted after an interruption has none: its `raw` is empty then); or always the object, for which the informer
retains all objects of the resource.
"""
AllHandler = Callable[["Resource", ObjectChange], object]
"""Receives the changes of all resources, and the declaration of the resource."""
ResourceCallback = Callable[["Set[GroupResource]"], object]
"""Receives the resources that were added to or removed from the server."""


class Informers:
    """The informers of one server, by group and plural name."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.dispatcher = server.dispatcher
        self._informers: dict[tuple[str, str], Informer] = {}
        self._sources: dict[tuple[str, str], StorageListWatch] = {}
        self._by_watch_cache: dict[WatchCache, StorageListWatch] = {}
        self._handlers: dict[tuple[str, str], list[tuple[ResourceEventHandler, Needs]]] = {}
        """Handlers of resources that are not served yet, or may be served again."""
        self._all_handlers = AllHandlers()
        self._resource_callbacks: list[ResourceCallback] = []
        self._changed_resources: set[GroupResource] = set()
        labels = ("group", "resource")
        registry = server.metrics.registry
        self._failures = {
            "undecodable": Counter(
                "kubewright_informer_undecodable_objects",
                "Stored objects that an informer could not decode.",
                labels,
                registry=registry,
            ),
            "handler": Counter(
                "kubewright_informer_handler_errors",
                "Exceptions raised by event handlers of informers.",
                labels,
                registry=registry,
            ),
        }
        self.dispatcher.listeners.append(self)

    # Reading

    async def informer(self, group: str, plural: str) -> Informer | None:
        """Return the informer of a resource once it includes every write through this server.

        `None` if the resource is not served. The informer keeps whole objects.
        """
        found = self._informers.get((group, plural))
        if found is not None and found.is_fresh and not found.metadata_only:
            return found
        found = self._start(group, plural, retain_objects=True)
        if found is None:
            return None
        try:
            async with asyncio.timeout(self.server.freshness_timeout):
                await found.wait_until_current()
                await found.wait_for_revision(self._sources[group, plural].store.written)
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
        return found is not None and ObjectKey(namespace, name) in found

    def is_watching(self, cache: WatchCache) -> bool:
        """Whether the events of a resource are received."""
        return cache in self._by_watch_cache

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

        def handler(change: ObjectChange) -> None:
            if change.key == (namespace, name) and change.new is not None and not created.done():
                created.set_result(change.new.object)

        informer.add_handler(handler)
        try:
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

    def unknown(self, group: str, plural: str) -> Sequence[UndecodableObject]:
        """Return the errors of the objects of a resource that cannot be decoded and have no last state."""
        found, store = self._informers.get((group, plural)), self.server.store(group, plural)
        if found is not None and found.is_current:
            return [error for error in found.unknown() if isinstance(error, UndecodableObject)]
        return list(store.objects.undecodable.values()) if store is not None else ()

    # Consistency

    @property
    def synced(self) -> bool:
        """Whether every informer has been listed and no change in storage is delayed."""
        return self.dispatcher.connected and all(each.is_current for each in self._informers.values())

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
        self._update_resources()
        for key, each in list(self._informers.items()):
            if resource is None or key == (resource.group, resource.resource):
                await each.wait_until_current()

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

        def handler(change: ObjectChange) -> None:
            changed.set()

        informer.add_handler(handler)
        try:
            async with asyncio.timeout(timeout):
                await informer.wait_until_current()
                while not condition(informer):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return False
        finally:
            informer.remove_handler(handler)
        return True

    # Handlers

    def add_handler(
        self, group: str, plural: str, handler: ResourceEventHandler, *, needs: Needs = "objects"
    ) -> None:
        """Call `handler` for every object and change of a resource, also if it is served only later."""
        self._handlers.setdefault((group, plural), []).append((handler, needs))
        found = self._informers.get((group, plural))
        if found is not None:
            _add_handler(found, handler, needs)
        else:
            self._start(group, plural)

    def remove_handler(self, group: str, plural: str, handler: ResourceEventHandler) -> None:
        """Stop calling a handler."""
        handlers = self._handlers.get((group, plural), [])
        handlers[:] = [entry for entry in handlers if entry[0] != handler]
        found = self._informers.get((group, plural))
        if found is not None:
            found.remove_handler(handler)

    def add_handler_for_all(self, handler: AllHandler) -> None:
        """Call `handler` for the metadata of every object of every resource."""
        self._all_handlers.add(handler)
        for store in list(self.server.stores):
            self._start(store.resource.group, store.resource.plural)

    def remove_handler_for_all(self, handler: AllHandler) -> None:
        """Stop calling a handler that was added for every resource."""
        self._all_handlers.remove(handler)

    def add_resource_callback(self, callback: ResourceCallback) -> None:
        """Call `callback` with the resources that were added to or removed from the server."""
        self._resource_callbacks.append(callback)

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
        key = (group, plural)
        if found is None:
            source = self._sources[key] = StorageListWatch(self.dispatcher, store)
            self._by_watch_cache[store.watch_cache] = source
            resource, rng = store.resource, self.server.rng
            found = self._informers[key] = Informer(
                GroupVersionKind(group, resource.storage_version, resource.kind),
                {"": source},
                metadata_only=not retain_objects,
                form=SharedEntry.of,
                rng=rng,
                backoff=partial(Backoff, initial=0.5, maximum=5.0, rng=rng),
                stream_initial_events=False,
            )
            found.on_failure = partial(self._count_failure, key)
            for handler, needs in self._handlers.get(key, ()):
                _add_handler(found, handler, needs)
            self._all_handlers.add_informer(found, lambda: source.store.resource)
            found.start()
        elif self._sources[key].store is not store:
            source = self._sources[key]
            self._by_watch_cache.pop(source.store.watch_cache, None)
            source.store = store
            self._by_watch_cache[store.watch_cache] = source
        if retain_objects:
            found.retain_objects()
        return found

    def _count_failure(self, key: tuple[str, str], what: str) -> None:
        self._failures[what].labels(*key).inc()

    # The server's watch on storage

    def on_resource_added(self, cache: WatchCache) -> None:
        """A resource is served from now on; its store is registered after this call."""
        self._schedule_update(cache)

    def on_resource_removed(self, cache: WatchCache) -> None:
        """A resource is no longer served, or is about to be replaced by another version of it."""
        self._schedule_update(cache)

    def _schedule_update(self, cache: WatchCache) -> None:
        if self.dispatcher.running:
            if not self._changed_resources:
                asyncio.get_running_loop().call_soon(self._update_resources)
            self._changed_resources.add(cache.resource)

    def _update_resources(self) -> None:
        """Start informers of new resources, and drop those of resources that are no longer served."""
        changed, self._changed_resources = self._changed_resources, set()
        for key in changed:
            store, informer = self.server.store(*key), self._informers.get(key)
            if informer is None:
                if store is not None and (self._all_handlers or key in self._handlers):
                    self._start(*key)
            elif store is None:
                del self._informers[key]
                self._by_watch_cache.pop(self._sources.pop(key).store.watch_cache, None)
                self._all_handlers.remove_informer(informer)
                informer.cancel()
            elif store is not self._sources[key].store:
                self._start(*key)
        if changed:
            for callback in self._resource_callbacks:
                callback(changed)

    def on_event(self, cache: WatchCache, event: WatchCacheEvent) -> None:
        """An object was written or deleted."""
        source = self._by_watch_cache.get(cache)
        if source is None:
            if cache.resource not in self._changed_resources:
                return
            self._update_resources()
            source = self._by_watch_cache.get(cache)
            if source is None:
                return
        source.on_event(event)

    def on_watch_lost(self) -> None:
        """The watch on storage has ended: no informer is up to date."""
        for source in self._sources.values():
            source.on_watch_lost()

    def on_watch_restarted(self) -> None:
        """A new watch has begun: list every resource."""
        for source in self._sources.values():
            source.on_watch_restarted()


class AllHandlers:
    """Handlers that are called for the changes of all informers of a set, with the resource of each."""

    def __init__(self) -> None:
        self._handlers: dict[AllHandler, dict[Informer, ResourceEventHandler]] = {}
        """Each with the handlers that were added to the informers for it."""
        self._informers: dict[Informer, Callable[[], Resource]] = {}

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def add(self, handler: AllHandler) -> None:
        """Call `handler` for all objects and changes of all informers."""
        self._handlers[handler] = {}
        for informer in self._informers:
            self._connect(handler, informer)

    def remove(self, handler: AllHandler) -> None:
        """Stop calling a handler."""
        for informer, added in self._handlers.pop(handler, {}).items():
            informer.remove_handler(added)

    def add_informer(self, informer: Informer, resource: Callable[[], Resource]) -> None:
        """Call the handlers for an informer; `resource` returns the current declaration."""
        self._informers[informer] = resource
        for handler in self._handlers:
            self._connect(handler, informer)

    def remove_informer(self, informer: Informer) -> None:
        """Forget an informer."""
        self._informers.pop(informer, None)
        for added in self._handlers.values():
            added.pop(informer, None)

    def _connect(self, handler: AllHandler, informer: Informer) -> None:
        resource = self._informers[informer]

        def added(change: ObjectChange) -> None:
            handler(resource(), change)

        self._handlers[handler][informer] = added
        informer.add_handler(added)


def _add_handler(informer: Informer, handler: ResourceEventHandler, needs: Needs) -> None:
    if needs == "objects":
        informer.retain_objects()
    informer.add_handler(handler, needs_objects=needs != "metadata")


def _out_of_date() -> ServiceUnavailable:
    return ServiceUnavailable("storage is unreachable or its watch has not caught up; try again later")
