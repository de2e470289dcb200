"""Read objects of informers without awaiting, for plug-ins.

Decoded objects are cached per version, and shared: plug-ins must not change them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from kubewright.api.meta import MetaObject
from kubewright.cache import Cache
from kubewright.cache.informers.informer import Informer
from kubewright.cache.stores.store import CacheEntry, ObjectKey

T = TypeVar("T", bound=MetaObject)


class Lister(Protocol):
    """Get and list objects from memory. The returned objects are shared and must not be changed."""

    def get(self, kind: type[T], name: str, *, namespace: str = "") -> T | None:
        """Return an object, or `None` if it does not exist or the kind is not available."""

    def list(self, kind: type[T], *, namespace: str | None = None) -> Iterable[T]:
        """Return the objects of a kind, of one namespace or of all."""


class StaticLister:
    """Lister of given objects, for simulations and tests."""

    def __init__(self, objects: Iterable[MetaObject] = ()) -> None:
        self._objects: dict[type[MetaObject], dict[tuple[str, str], MetaObject]] = {}
        for obj in objects:
            self.put(obj)

    def put(self, obj: MetaObject) -> None:
        """Add or replace an object."""
        key = (obj.metadata.namespace or "", obj.metadata.name or "")
        self._objects.setdefault(type(obj), {})[key] = obj

    def remove(self, obj: MetaObject) -> None:
        """Remove an object."""
        key = (obj.metadata.namespace or "", obj.metadata.name or "")
        self._objects.get(type(obj), {}).pop(key, None)

    def get(self, kind: type[T], name: str, *, namespace: str = "") -> T | None:
        """Return an object, or `None`."""
        found: Any = self._objects.get(kind, {}).get((namespace, name))
        return found if isinstance(found, kind) else None

    def list(self, kind: type[T], *, namespace: str | None = None) -> Iterable[T]:
        """Return the objects of a kind."""
        objects = self._objects.get(kind, {})
        return [
            obj
            for key, obj in objects.items()
            if isinstance(obj, kind) and (namespace is None or key[0] == namespace)
        ]


class InformerLister:
    """Lister of a cache. Kinds that have no informer are empty."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._informers: dict[type[Any], Informer] = {}
        self._decoded: dict[type[Any], dict[ObjectKey, Any]] = {}
        """Entries of the cache, each with its object."""

    def add(self, kind: type[MetaObject], informer: Informer) -> None:
        """Serve a kind from an informer."""
        self._informers[kind] = informer
        self._decoded[kind] = {}

    def forget(self, kind: type[MetaObject], key: ObjectKey) -> None:
        """Drop the decoded version of an object that was deleted."""
        self._decoded.get(kind, {}).pop(key, None)

    def get(self, kind: type[T], name: str, *, namespace: str = "") -> T | None:
        """Return an object, or `None`."""
        informer = self._informers.get(kind)
        if informer is None:
            return None
        key = ObjectKey(namespace, name)
        entry = informer.store.get(key)
        return None if entry is None else self._decode(kind, key, entry)

    def list(self, kind: type[T], *, namespace: str | None = None) -> Iterable[T]:
        """Return the objects of a kind."""
        informer = self._informers.get(kind)
        if informer is None:
            return []
        return [self._decode(kind, key, entry) for key, entry in informer.store.entries(namespace)]

    def _decode(self, kind: type[T], key: ObjectKey, entry: CacheEntry) -> T:
        decoded = self._decoded[kind]
        known, obj = decoded.get(key, (None, None))
        if known is not entry:
            obj = entry.decode(kind)
            decoded[key] = (entry, obj)
        found: T = obj
        return found
