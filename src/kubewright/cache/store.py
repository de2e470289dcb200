"""What an informer knows: one copy of each object, as the bytes that came over the wire.

An entry is the bytes and the revision; everything else is decoded when somebody asks. Typed, unstructured
and metadata views therefore share one copy, and no reader can change what another one sees. Entries are
grouped by namespace, so a namespaced list costs what it returns.

Changes carry revisions, and a store never goes back: a change that is not newer than what is known is
ignored. That is what makes it safe to feed it from two sides, the watch and the answers to our own writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import NamedTuple, TypeVar

import msgspec

from kubewright.api.codec import ObjectHeader, decode, decoder
from kubewright.api.objects import Struct

T = TypeVar("T")

_read_header = decoder(ObjectHeader).decode


class ObjectKey(NamedTuple):
    """Where an object is: its namespace (empty for cluster-scoped kinds) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class CacheEntry(msgspec.Struct, gc=False, frozen=True, eq=False):
    """One version of one object."""

    raw: bytes
    revision: int
    uid: str

    def header(self) -> ObjectHeader:
        """apiVersion, kind and metadata, without reading the rest."""
        return _read_header(self.raw)

    def decode(self, of: type[T]) -> T:
        """A new object of this class; it belongs to the caller."""
        return decode(self.raw, of)


class _Labels(Struct):
    labels: dict[str, str] | None = None


class _LabelsHeader(Struct):
    metadata: _Labels


_read_labels = decoder(_LabelsHeader).decode


def labels_of(entry: CacheEntry) -> dict[str, str]:
    """The labels, without reading anything else."""
    return _read_labels(entry.raw).metadata.labels or {}


Indexer = Callable[[CacheEntry], Iterable[str]]
"""Says under which values an object is found."""


class ObjectChange(NamedTuple):
    """What happened to one object. `old` is what was known before; a deletion has no `new`."""

    key: ObjectKey
    old: CacheEntry | None
    new: CacheEntry | None
    initial: bool = False
    """Part of the first list, or of a list after a gap, rather than something that happened just now."""


class Store:
    """The objects of one kind."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, CacheEntry]] = {}
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[str, dict[ObjectKey, None]]] = {}
        self._values: dict[str, dict[ObjectKey, str | tuple[str, ...]]] = {}
        """Under what each object is found; most have one value per index, which then needs no tuple."""
        self.bytes = 0
        """How many bytes of objects are held."""

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._namespaces.values())

    def get(self, key: ObjectKey) -> CacheEntry | None:
        """One object, or `None`."""
        objects = self._namespaces.get(key.namespace)
        return objects.get(key.name) if objects is not None else None

    def entries(self, namespace: str | None = None) -> Iterator[tuple[ObjectKey, CacheEntry]]:
        """All objects, or those of one namespace. Do not change the store meanwhile."""
        if namespace is not None:
            for name, entry in self._namespaces.get(namespace, {}).items():
                yield ObjectKey(namespace, name), entry
            return
        for space, objects in self._namespaces.items():
            for name, entry in objects.items():
                yield ObjectKey(space, name), entry

    def put(self, key: ObjectKey, entry: CacheEntry) -> CacheEntry | None:
        """Keep an object; returns what was there."""
        namespace = intern(key.namespace)
        objects = self._namespaces.get(namespace)
        if objects is None:
            objects = self._namespaces[namespace] = {}
        old = objects.get(key.name)
        objects[key.name] = entry
        self.bytes += len(entry.raw) - (len(old.raw) if old is not None else 0)
        for name in self._indexers:
            self._index(name, key, entry)
        return old

    def pop(self, key: ObjectKey) -> CacheEntry | None:
        """Forget an object; returns what was there."""
        objects = self._namespaces.get(key.namespace)
        old = objects.pop(key.name, None) if objects is not None else None
        if old is None:
            return None
        if not objects:
            del self._namespaces[key.namespace]
        self.bytes -= len(old.raw)
        for name in self._indexers:
            self._unindex(name, key)
        return old

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Keep an index from now on; what is there is indexed at once. The same name replaces an index."""
        self._indexers[name] = indexer
        self._indexes[name] = {}
        self._values[name] = {}
        for key, entry in list(self.entries()):
            self._index(name, key, entry)

    def has_index(self, name: str) -> bool:
        """Whether there is an index of that name."""
        return name in self._indexers

    def indexed(
        self, name: str, value: str, namespace: str | None = None
    ) -> Iterator[tuple[ObjectKey, CacheEntry]]:
        """The objects under one value of an index; `KeyError` if there is no such index."""
        for key in self._indexes[name].get(value, ()):
            if namespace is None or key.namespace == namespace:
                entry = self.get(key)
                if entry is not None:
                    yield key, entry

    def has_value(self, name: str, key: ObjectKey, value: str) -> bool:
        """Whether an object is found under a value of an index."""
        return value in self._values_of(name, key)

    def index_values(self, name: str) -> list[str]:
        """Every value that has objects."""
        return list(self._indexes[name])

    def _index(self, name: str, key: ObjectKey, entry: CacheEntry) -> None:
        values = tuple(dict.fromkeys(map(intern, self._indexers[name](entry))))
        if values == self._values_of(name, key):
            return
        index = self._indexes[name]
        self._unindex(name, key)
        for value in values:
            index.setdefault(value, {})[key] = None
        if values:
            self._values[name][key] = values[0] if len(values) == 1 else values

    def _unindex(self, name: str, key: ObjectKey) -> None:
        index = self._indexes[name]
        for value in self._values_of(name, key):
            keys = index[value]
            del keys[key]
            if not keys:
                del index[value]
        self._values[name].pop(key, None)

    def _values_of(self, name: str, key: ObjectKey) -> tuple[str, ...]:
        values = self._values[name].get(key, ())
        return (values,) if isinstance(values, str) else values


class _Reduced(Struct):
    api_version: str = ""
    kind: str = ""
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_read_reduced = decoder(_Reduced).decode
_METADATA_ONLY = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}'


def metadata_only_bytes(raw: bytes) -> bytes:
    """An object reduced to its metadata, as a server that was asked for no more would have sent it."""
    return _METADATA_ONLY % bytes(_read_reduced(raw).metadata)


def strip_managed_fields(raw: bytes, header: ObjectHeader) -> bytes:
    """Cut the managed fields out of the bytes: nobody reads them, and they can be half of an object."""
    fields = bytes(header.metadata.managed_fields)
    if fields == b"null":
        return raw
    for name in (b'"managedFields":', b'"managedFields": '):
        start = raw.find(name + fields)
        if start >= 0:
            end = start + len(name) + len(fields)
            if raw[end : end + 1] == b",":
                return raw[:start] + raw[end + 1 :]
            before = raw[:start].rstrip()
            return (before[:-1] if before.endswith(b",") else before) + raw[end:]
    return raw
