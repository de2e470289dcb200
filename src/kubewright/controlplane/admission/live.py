"""Live objects for admission plug-ins: read from storage, decoded once per version of the object.

Plug-ins look at a few objects over and over (the namespace of the request, policies, quotas). `Live` keeps
the decoded form of what it has read and checks it against the revision that is stored, so that nothing is
ever stale. The objects are shared: do not change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.store import Store

Object = dict[str, Any]

_decode = msgspec.json.Decoder().decode
REMEMBERED = 2048


class Live:
    """Reads objects in their stored version."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self._objects: dict[str, tuple[int, Object]] = {}

    def _decoded(self, key: str, value: bytes, revision: int) -> Object:
        known = self._objects.get(key)
        if known is not None and known[0] == revision:
            return known[1]
        obj: Object = _decode(value)
        obj["metadata"]["resourceVersion"] = str(revision)
        if len(self._objects) >= REMEMBERED:
            self._objects.pop(next(iter(self._objects)))
        self._objects[key] = (revision, obj)
        return obj

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, if it is there."""
        store = self.server.store(group, plural)
        return await self.read(store, namespace, name) if store is not None else None

    async def read(self, store: Store, namespace: str, name: str) -> Object | None:
        """One object of a store, if it is there."""
        key = store.key(namespace, name)
        item = await store.storage.get(key)
        return self._decoded(key, item.value, item.mod_revision) if item is not None else None

    async def all(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        """All objects of a namespace, or of all."""
        store = self.server.store(group, plural)
        return await self.read_all(store, namespace) if store is not None else []

    async def read_all(self, store: Store, namespace: str = "") -> list[Object]:
        """All objects of a store."""
        page = await store.storage.list(store.range(namespace))
        return [self._decoded(item.key, item.value, item.mod_revision) for item in page.items]

    async def namespace(self, name: str) -> Object | None:
        """A namespace, if it is there."""
        return await self.get("", "namespaces", "", name)
