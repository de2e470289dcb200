"""The informer of one resource: its state, and the events that its handlers receive.

It lists the resource once and then receives every change from the watch on storage, so it also has the writes
of other replicas. Only metadata is kept, unless a handler needs whole objects (`Needs`). After an
interruption of the watch it lists again and reports the differences.

An object whose stored value cannot be decoded exists: its last state stays, and handlers receive no event. If
there is no last state, `get` and `list` raise the error that a client receives, so that a decision that
depends on the object is not made without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kubewright.apiserver.stored_objects import UndecodableObject
from kubewright.storage.contract import StorageError

from .object_metadata import Metadata, metadata_of

if TYPE_CHECKING:
    from kubewright.apiserver.resource import Resource
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.apiserver.watch.event import WatchCacheEvent
    from kubewright.storage.contract import KeyValue

    from .informers import Informers


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
        """The previous state; `None` for new objects and if it is not known."""
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
        self._undecodable: dict[Key, UndecodableObject] = {}
        """Objects whose stored value cannot be decoded, with or without a last state."""
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
        """Return one object, or `None`; raises `UndecodableObject` if its state is not known."""
        key = (namespace, name)
        found = self._objects.get(key)
        if found is None:
            raw = self._raw.get(key)
            if raw is None:
                if key in self._undecodable:
                    raise self._undecodable[key].copy()
                return None
            found = self._objects[key] = decode_object(raw, self._metadata[key].revision)
        return found

    def list(self, *, namespace: str = "") -> list[Object]:
        """Return all objects, or those of one namespace, ordered by name.

        Raises `UndecodableObject` if the state of one of them is not known.
        """
        for error in self.unknown(namespace=namespace):
            raise error.copy()
        if namespace:
            keys = [(namespace, name) for name in sorted(self._namespaces.get(namespace, ()))]
        else:
            keys = sorted(self._raw)
        found = (self.get(name, namespace=where) for where, name in keys)
        return [obj for obj in found if obj is not None]

    def unknown(self, *, namespace: str = "") -> Sequence[UndecodableObject]:
        """Return the errors of objects without a last state, whose stored value cannot be decoded."""
        if not self._undecodable:
            return ()
        known = self._raw if self.retains_objects else self._metadata
        return [
            error
            for key, error in self._undecodable.items()
            if key not in known and (not namespace or key[0] == namespace)
        ]

    def __len__(self) -> int:
        return len(self._metadata)

    def __contains__(self, key: Key) -> bool:
        return key in self._metadata or key in self._undecodable

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

    def relist(self, *, resync: bool = False) -> None:
        """List the resource and report what differs from the known state; with `resync`, every object."""
        self.lose()
        self._listing = asyncio.get_running_loop().create_task(self._list(resync), name="informer list")

    async def stop(self) -> None:
        """Stop listing."""
        task, self._listing = self._listing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _list(self, resync: bool) -> None:
        while True:
            store = self.store
            try:
                page, errors = await store.storage.list_stored(store.prefix)
                break
            except StorageError as error:
                logger.warning(
                    "resource cannot be listed; retrying",
                    extra={"resource": str(store.resource.group_resource), "error": str(error)},
                )
                await asyncio.sleep(_RETRY)
        self._replace(page.items, page.revision, resync, {error.key: error for error in errors})
        self._listing = None

    def _replace(
        self, items: Sequence[KeyValue], revision: int, resync: bool, errors: Mapping[str, UndecodableObject]
    ) -> None:
        """Take a listed state; changes up to its revision are included in it."""
        store = self.store
        joining, self._joining = self._joining, []
        listed = set()
        for item in items:
            key = self._key(item.key)
            if item.key in errors:
                listed.add(key)
                self._keep(key, errors[item.key])
                if joining and (last := self._metadata.get(key)) is not None:
                    self._call(joining, self._existing(key, last, self._raw.get(key, b"")))
                continue
            known = self._metadata.get(key)
            if known is None or known.revision != item.mod_revision:
                self._put(key, item.value, item.mod_revision, old=None, initial=True)
            else:
                if self.retains_objects:
                    self._retain(key, item.value)
                if resync:
                    self._emit(
                        ResourceEvent(
                            store.resource, key, known, known, new=item.value, old=item.value, initial=True
                        )
                    )
            listed.add(key)
            if joining and (metadata := self._metadata.get(key)) is not None:
                self._call(joining, self._existing(key, metadata, item.value))
        self._handlers += joining
        for key in [key for key in (*self._metadata, *self._undecodable) if key not in listed]:
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
        elif isinstance(change.error, UndecodableObject):
            self._keep(key, change.error)
        else:
            self._put(key, event.value, event.revision, old=old)

    def _put(
        self, key: Key, value: bytes, revision: int, *, old: bytes | None, initial: bool = False
    ) -> None:
        metadata = metadata_of(value, revision)
        if self._undecodable.pop(key, None) is not None:
            old = None
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

    def _keep(self, key: Key, error: UndecodableObject) -> None:
        """Keep the last state of an object whose stored value cannot be decoded."""
        if self._undecodable.get(key) is error:
            return
        self._undecodable[key] = error
        self.generation += 1
        resource = self.store.resource
        self._informers.count_undecodable(resource)
        has_state = key in (self._raw if self.retains_objects else self._metadata)
        logger.error(
            "stored object cannot be decoded; its last state stays in use"
            if has_state
            else "stored object cannot be decoded and has no last state",
            extra={"resource": str(resource.group_resource), "object": "/".join(key)},
        )

    def _retain(self, key: Key, value: bytes) -> None:
        self._raw[key] = value
        self._objects.pop(key, None)
        self._namespaces.setdefault(key[0], {})[key[1]] = None

    def _delete(self, key: Key, revision: int, *, old: bytes | None) -> None:
        if self._undecodable.pop(key, None) is not None:
            self.generation += 1
            old = None
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


__all__ = ["Handler", "Informer", "Key", "Needs", "Object", "ResourceEvent", "decode_object"]
