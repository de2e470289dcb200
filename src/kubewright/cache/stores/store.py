"""`Store`: the objects of one kind, as the bytes of the response that contained them.

An entry has the bytes and the revision; the rest is decoded when it is read. Typed, unstructured and metadata
readers share one copy, and no reader can change the object of another. Entries are grouped by namespace, so a
namespaced list costs as much as it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from kubewright.api.encoding.codec import ObjectHeader, decode, decoder
from kubewright.api.objects import Struct

from .object_metadata import Metadata, metadata_of

if TYPE_CHECKING:
    from kubewright.cache.reflectors.lister_watcher import ObjectEvent

T = TypeVar("T")

_decode_header = decoder(ObjectHeader).decode
_decode_plain = msgspec.json.Decoder().decode


class ObjectKey(NamedTuple):
    """Namespace and name of an object; cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def log_fields(self, kind: str) -> dict[str, str]:
        """Return the fields of log lines about an object."""
        return {"kind": kind, "namespace": self.namespace, "object": self.name}


class CacheEntry(msgspec.Struct, gc=False, frozen=True, eq=False):
    """One version of one object.

    A store has entries as bytes in memory (`MemoryEntry`) or in a file, or decoded once (`SharedEntry`).
    """

    @property
    def raw(self) -> bytes:
        """The object as the server has sent it, or as the transform of its kind has returned it."""
        raise NotImplementedError

    @property
    def revision(self) -> int:
        """The resource version as a number; 0 if it is not one."""
        raise NotImplementedError

    @property
    def uid(self) -> str:
        """The uid of the object."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.raw)

    @property
    def metadata(self) -> Metadata:
        """Name, uid, owners, finalizers and deletion, decoded without the rest."""
        return metadata_of(self.raw, self.revision)

    @property
    def object(self) -> dict[str, Any]:
        """The object as plain data."""
        return decode_object(self.raw, self.revision)

    def without_object(self) -> CacheEntry:
        """Return what an informer of metadata stores of this version."""
        return self

    def with_object(self, raw: bytes) -> CacheEntry:
        """Return this version with its bytes, if it does not have them."""
        return self

    def header(self) -> ObjectHeader:
        """Decode apiVersion, kind and metadata only."""
        return _decode_header(self.raw)

    def decode(self, of: type[T]) -> T:
        """Decode a new object of this class; the caller owns it."""
        return decode(self.raw, of)


class MemoryEntry(CacheEntry, gc=False, frozen=True, eq=False):
    """An entry whose bytes are in memory."""

    raw: bytes
    revision: int
    uid: str


class SharedEntry(CacheEntry, gc=False, frozen=True, eq=False):
    """An entry that is decoded once for all its readers, which must not change the object.

    For kinds that are read much more often than they change. An informer of metadata stores it without bytes:
    `raw` is empty then, except in the change that a handler receives.
    """

    metadata: Metadata
    raw: bytes
    decoded: dict[str, Any] | None = None

    @classmethod
    def of(cls, event: ObjectEvent) -> SharedEntry:
        """Return the entry of a received version; raises `msgspec.DecodeError`."""
        metadata = metadata_of(event.raw, event.revision)
        # One copy of each name in memory.
        metadata.name, metadata.namespace = event.name, intern(event.namespace)
        return cls(metadata, event.raw)

    @property
    def revision(self) -> int:
        """The resource version as a number."""
        return self.metadata.revision

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return self.metadata.uid

    @property
    def object(self) -> dict[str, Any]:
        """The object as plain data. Do not change it."""
        found = self.decoded
        if found is None:
            found = decode_object(self.raw, self.metadata.revision)
            msgspec.structs.force_setattr(self, "decoded", found)
        return found

    def without_object(self) -> SharedEntry:
        """Return the metadata."""
        return SharedEntry(self.metadata, b"") if self.raw else self

    def with_object(self, raw: bytes) -> SharedEntry:
        """Return this version with its bytes, if it does not have them."""
        return SharedEntry(self.metadata, raw) if raw and not self.raw else self


def decode_object(raw: bytes, revision: int) -> dict[str, Any]:
    """Decode an object to plain data; stored objects do not contain their resourceVersion."""
    obj: dict[str, Any] = _decode_plain(raw)
    if revision:
        obj["metadata"]["resourceVersion"] = str(revision)
    return obj


class _Labels(Struct):
    labels: dict[str, str] | None = None


class _LabelsHeader(Struct):
    metadata: _Labels


_decode_labels = decoder(_LabelsHeader).decode


def labels_of(entry: CacheEntry) -> dict[str, str]:
    """Decode the labels only."""
    return _decode_labels(entry.raw).metadata.labels or {}


Indexer = Callable[[CacheEntry], Iterable[str]]
"""Returns the index values of an object."""


class ObjectChange(NamedTuple):
    """A change of one object. `old` is the previous entry, if any; a deletion has no `new`."""

    key: ObjectKey
    old: CacheEntry | None
    new: CacheEntry | None
    initial: bool = False
    """Whether it comes from a list or a resync instead of a watch event."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED."""
        if self.new is None:
            return "DELETED"
        return "ADDED" if self.old is None else "MODIFIED"

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty if it is cluster-scoped."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.key.name

    @property
    def entry(self) -> CacheEntry:
        """The current version; of a deleted object, the last."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found

    @property
    def old_object(self) -> dict[str, Any] | None:
        """The previous state of an object that exists, as plain data; `None` if it is not known."""
        old = self.old
        return old.object if old is not None and self.new is not None and old.raw else None


class Store:
    """The objects of one kind and their indexes."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, CacheEntry]] = {}
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[str, dict[ObjectKey, None]]] = {}
        self._values: dict[str, dict[ObjectKey, str | tuple[str, ...]]] = {}
        """Index values per object; a single value is stored without a tuple."""
        self.bytes = 0
        """Total size of the stored objects."""

    @property
    def spilled_bytes(self) -> int:
        """Size of the file that the objects are in; 0 if they are in memory."""
        return 0

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._namespaces.values())

    def get(self, key: ObjectKey) -> CacheEntry | None:
        """Return the entry of an object, or `None`."""
        objects = self._namespaces.get(key.namespace)
        return objects.get(key.name) if objects is not None else None

    def entries(self, namespace: str | None = None) -> Iterator[tuple[ObjectKey, CacheEntry]]:
        """Iterate all entries, or those of one namespace. Do not change the store during the iteration."""
        if namespace is not None:
            for name, entry in self._namespaces.get(namespace, {}).items():
                yield ObjectKey(namespace, name), entry
            return
        for space, objects in self._namespaces.items():
            for name, entry in objects.items():
                yield ObjectKey(space, name), entry

    def snapshot(self, namespace: str | None = None) -> Iterator[tuple[ObjectKey, CacheEntry]]:
        """Iterate the entries that exist now, all or those of one namespace, while the store may change.

        Entries that have been removed meanwhile are skipped. Needs eight bytes of memory per entry, where a
        list of all keys and entries needs 150.
        """
        for space in list(self._namespaces) if namespace is None else [namespace]:
            objects = self._namespaces.get(space, {})
            for name in list(objects):
                key = ObjectKey(space, name)
                # A namespace whose last object was removed and that has objects again has another dict.
                entry = objects.get(name) or self.get(key)
                if entry is not None:
                    yield key, entry

    def put(self, key: ObjectKey, entry: CacheEntry) -> CacheEntry | None:
        """Store an entry; return the previous one."""
        namespace = intern(key.namespace)
        objects = self._namespaces.get(namespace)
        if objects is None:
            objects = self._namespaces[namespace] = {}
        old = objects.get(key.name)
        objects[key.name] = entry
        self.bytes += len(entry.raw)
        if old is not None:
            self.bytes -= old.size
        for name in self._indexers:
            self._index(name, key, entry)
        return old

    def pop(self, key: ObjectKey) -> CacheEntry | None:
        """Remove an entry; return it."""
        objects = self._namespaces.get(key.namespace)
        old = objects.pop(key.name, None) if objects is not None else None
        if old is None:
            return None
        if not objects:
            del self._namespaces[key.namespace]
        self.bytes -= old.size
        for name in self._indexers:
            self._unindex(name, key)
        return old

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Add an index and index all entries; an index with the same name is replaced."""
        self._indexers[name] = indexer
        self._indexes[name] = {}
        self._values[name] = {}
        for key, entry in self.entries():
            self._index(name, key, entry)

    def has_index(self, name: str) -> bool:
        """Whether an index exists."""
        return name in self._indexers

    def indexed(
        self, name: str, value: str, namespace: str | None = None
    ) -> Iterator[tuple[ObjectKey, CacheEntry]]:
        """Iterate the entries with one value of an index; `KeyError` if the index does not exist."""
        for key in self._indexes[name].get(value, ()):
            if namespace is None or key.namespace == namespace:
                entry = self.get(key)
                if entry is not None:
                    yield key, entry

    def count(self, name: str, value: str) -> int:
        """Return the number of objects with one value of an index."""
        return len(self._indexes[name].get(value, ()))

    def has_value(self, name: str, key: ObjectKey, value: str) -> bool:
        """Whether an object has a value in an index."""
        return value in self._values_of(name, key)

    def index_values(self, name: str) -> list[str]:
        """Return all values of an index."""
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


class _MetadataBytes(Struct):
    api_version: str = ""
    kind: str = ""
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode_metadata = decoder(_MetadataBytes).decode
_METADATA_ONLY = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}'


def metadata_only_bytes(raw: bytes) -> bytes:
    """Reduce an object to the PartialObjectMetadata that a server would have sent."""
    return _METADATA_ONLY % bytes(_decode_metadata(raw).metadata)


def strip_managed_fields(raw: bytes, header: ObjectHeader) -> bytes:
    """Remove `metadata.managedFields`, which can be half of an object. The default transform."""
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
