"""Live objects for admission plug-ins, decoded and at hand.

Plug-ins look at a few kinds of objects on every write: namespaces, policies, quotas. `Live` keeps those
decoded and follows their changes. What this server itself writes is seen by the very next request: `notice`
says that a write is on its way, and until its change has come back the objects are read from storage.

Objects are shared: do not change them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from kubewright.apiserver.admission import AdmissionAttributes
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.watch.cache import WatchCacheEvent

Object = dict[str, Any]

_decode = msgspec.json.Decoder().decode
UNSURE = 1.0
"""Seconds after a write in which storage is asked."""


def _decoded(value: bytes, revision: int) -> Object:
    obj: Object = _decode(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


class Collection:
    """All objects of one kind, in their stored version, by namespace and name."""

    def __init__(self, store: ResourceStore) -> None:
        self.store = store
        self.objects: dict[tuple[str, str], Object] = {}
        self.by_namespace: dict[str, dict[str, Object]] = {}
        self._read = False
        self._unsure_until = 0.0
        store.watch_cache.listeners.append(self._changed)

    def close(self) -> None:
        """Stop following."""
        if self._changed in self.store.watch_cache.listeners:
            self.store.watch_cache.listeners.remove(self._changed)

    def notice(self) -> None:
        """A write is on its way."""
        self._unsure_until = self.store.server.clock() + UNSURE

    def _put(self, namespace: str, name: str, obj: Object | None) -> None:
        if obj is None:
            self.objects.pop((namespace, name), None)
            self.by_namespace.get(namespace, {}).pop(name, None)
        else:
            self.objects[namespace, name] = obj
            self.by_namespace.setdefault(namespace, {})[name] = obj

    def _changed(self, change: WatchCacheEvent) -> None:
        if not self._read:
            return
        event, key = change.event, (change.namespace, change.name)
        known = self.objects.get(key)
        if known is not None and int(known["metadata"]["resourceVersion"]) >= event.revision:
            return
        self._put(*key, _decoded(event.value, event.revision) if event.value is not None else None)

    async def ready(self) -> None:
        """Read what is there, if following the changes is not enough."""
        if self._read and (self._unsure_until < self.store.server.clock()):
            return
        page = await self.store.storage.list(self.store.prefix)
        prefix, namespaced = len(self.store.prefix), self.store.resource.namespaced
        known, self.objects, self.by_namespace = self.objects, {}, {}
        for item in page.items:
            rest = item.key[prefix:]
            namespace, _, name = rest.rpartition("/") if namespaced else ("", "", rest)
            obj = known.get((namespace, name))
            if obj is None or obj["metadata"]["resourceVersion"] != str(item.mod_revision):
                obj = _decoded(item.value, item.mod_revision)
            self._put(namespace, name, obj)
        self._read = True


class Live:
    """Reads objects in their stored version."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self._collections: dict[tuple[str, str], Collection] = {}

    def notice(self, request: AdmissionAttributes) -> None:
        """A write passes through admission."""
        found = self._collections.get((request.resource.group, request.resource.resource))
        if found is not None and not request.dry_run:
            found.notice()

    async def collection(self, group: str, plural: str) -> Collection | None:
        """All objects of a kind of which there are few."""
        found = self._collections.get((group, plural))
        store = self.server.store(group, plural)
        if store is None:
            return None
        if found is None or found.store is not store:
            if found is not None:
                found.close()
            found = self._collections[group, plural] = Collection(store)
        await found.ready()
        return found

    async def all(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        """All objects of a kind, or those of a namespace, by name."""
        found = await self.collection(group, plural)
        if found is None:
            return []
        if namespace:
            chosen = found.by_namespace.get(namespace)
            return [chosen[name] for name in sorted(chosen)] if chosen else []
        return [found.objects[key] for key in sorted(found.objects)] if found.objects else []

    async def one(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object of a kind of which there are few, if it is there."""
        found = await self.collection(group, plural)
        return found.objects.get((namespace, name)) if found is not None else None

    async def appears(
        self, group: str, plural: str, namespace: str, name: str, seconds: float
    ) -> Object | None:
        """One object that somebody is about to create, if it comes in time."""
        found = await self.one(group, plural, namespace, name)
        store = self.server.store(group, plural)
        if found is not None or store is None:
            return found
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(change: WatchCacheEvent) -> None:
            if (change.namespace, change.name) == (namespace, name) and not came.done():
                came.set_result(None)

        store.watch_cache.listeners.append(look)
        try:
            found = await self.read(store, namespace, name)
            if found is None:
                async with asyncio.timeout(seconds):
                    await came
                found = await self.read(store, namespace, name)
        except TimeoutError:
            return None
        finally:
            store.watch_cache.listeners.remove(look)
        return found

    async def namespace(self, name: str) -> Object | None:
        """A namespace, if it is there."""
        found = await self.one("", "namespaces", "", name)
        return found if found is not None else await self.get("", "namespaces", "", name)

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, straight from storage."""
        store = self.server.store(group, plural)
        return await self.read(store, namespace, name) if store is not None else None

    async def read(self, store: ResourceStore, namespace: str, name: str) -> Object | None:
        """One object of a store, straight from storage."""
        item = await store.storage.get(store.key(namespace, name))
        return _decoded(item.value, item.mod_revision) if item is not None else None

    async def read_all(self, store: ResourceStore, namespace: str = "") -> list[Object]:
        """All objects of a store, straight from storage."""
        page = await store.storage.list(store.range(namespace))
        return [_decoded(item.value, item.mod_revision) for item in page.items]
