"""The stored objects of one resource: keys, reading, conversion.

Verb handlers, controllers in the process and admission plug-ins read through a `ResourceStore` and write
through its `creator`, `updater` and `deleter`. Objects are dicts in the requested version and belong to the
caller.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import not_found
from kubewright.apiserver.encoding.negotiation import PLAIN, ResponseFormat
from kubewright.apiserver.encoding.representation import Representation, StorageCodec
from kubewright.apiserver.metrics.storage import InstrumentedStorage
from kubewright.apiserver.resources.object_schema import upgrade_stored
from kubewright.apiserver.resources.stored_objects import StoredObjects, UndecodableObject
from kubewright.apiserver.resources.strategy import Strategy
from kubewright.apiserver.slices import LONG_OBJECT, run_in_worker
from kubewright.apiserver.watch.cache import WatchCache
from kubewright.patch import FieldManager
from kubewright.storage.contract import KeyValue, Page, Storage

from .field_managers import make_field_manager, run_with_conversions
from .selection import Selection
from .verbs.create import Creator
from .verbs.delete import Deleter
from .verbs.update import Updater

if TYPE_CHECKING:
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.resources.resource import Resource, Version
    from kubewright.apiserver.resources.strategy import Operation
    from kubewright.apiserver.server import APIServer

_SCAN_SLICE = 500
"""Objects that a selector is evaluated on before other tasks of the event loop run."""


class ResourceStore:
    """Access to the objects of one resource."""

    def __init__(self, server: APIServer, resource: Resource) -> None:
        self.server = server
        self.resource = resource
        self.codec = StorageCodec(resource)
        self.prefix = f"{server.prefix}{resource.storage_prefix}/"
        self.backend = resource.backend(resource, server.storage, self.prefix) if resource.backend else None
        """The storage of the resource, if it is not that of the server."""
        self.objects = StoredObjects(
            server.dispatcher,
            resource.group_resource,
            resource.kind,
            self.prefix,
            encrypted=server.storage.decrypts,
        )
        # The objects of a backend are encoded by this process, and its revisions are not those of storage.
        self.storage = CheckedStorage(
            self.backend or server.storage, self.objects, self.prefix, checked=self.backend is None
        )
        self.watch_cache = WatchCache(
            server.dispatcher,
            resource.group_resource,
            self.prefix,
            namespaced=resource.namespaced,
            bookmark_interval=server.bookmark_interval,
        )
        if self.backend is None:
            self.watch_cache.objects = self.objects
        self.watch_cache.on_count = server.metrics.watch_counter(resource)
        self.creator = Creator(self)
        self.updater = Updater(self)
        self.deleter = Deleter(self)
        self.written = 0
        """The revision of the last write through this store; the watch cache receives its event later."""
        self._representations: dict[tuple[str, ResponseFormat, str], Representation] = {}
        self._field_managers: dict[tuple[str, str], FieldManager] = {}

    def close(self) -> None:
        """End the watches; the resource is no longer served."""
        self.watch_cache.stop()

    async def deliver(self) -> None:
        """Let watches send the last write before the response to its writer is sent, as kube-apiserver does.

        Without watches this does nothing. A remote storage reports changes later and is not waited for.
        """
        if self.watch_cache.active and self.storage.shares_values:
            await self.server.dispatcher.wait_for_revision(self.written)
            await asyncio.sleep(0)  # the dispatcher has woken the tasks of the watches; they run first

    def key(self, namespace: str, name: str) -> str:
        """Return the storage key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.resource.namespaced else f"{self.prefix}{name}"

    def shown_key(self, namespace: str, name: str) -> str:
        """Return the storage key of an object as messages of kube-apiserver show it."""
        prefix = f"{self.server.prefix}{self.resource.message_prefix}/"
        return prefix + self.key(namespace, name).removeprefix(self.prefix)

    def range(self, namespace: str) -> str:
        """Return the key prefix of a namespace, or of all objects."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix

    def representation(
        self, version: Version, response_format: ResponseFormat = PLAIN, include: str = "Metadata"
    ) -> Representation:
        """Return the representation of a version in a response format; cached."""
        key = (version.name, response_format, include)
        found = self._representations.get(key)
        if found is None:
            found = Representation(self.codec, version, response_format, include)
            self._representations[key] = found
        return found

    def field_manager(self, version: Version, subresource: str) -> FieldManager:
        """Return the field manager of a version and subresource; cached."""
        key = (version.name, subresource)
        found = self._field_managers.get(key)
        if found is None:
            found = self._field_managers[key] = make_field_manager(self.resource, version, subresource)
        return found

    def is_long(self, size: int) -> bool:
        """Whether objects of this size are decoded and validated in the worker thread."""
        if size <= LONG_OBJECT:
            return False
        strategy = self.resource.strategy
        return strategy.runs_in_worker or type(strategy) is Strategy

    async def track_fields(
        self,
        version: Version,
        subresource: str,
        function: Callable[[FieldManager], Object],
        *,
        is_long: bool = False,
    ) -> Object:
        """Call a function with a field manager; it is called again if a conversion has to be awaited.

        `is_long`: call it in the worker thread.
        """
        manager = self.field_manager(version, subresource)
        if self.representation(version).awaits:
            return await run_with_conversions(partial(function, manager), self.convert, is_long=is_long)
        return await run_in_worker(partial(function, manager)) if is_long else function(manager)

    async def read(self, namespace: str, name: str) -> KeyValue:
        """Return the stored bytes of one object; raises `NotFound`."""
        item = await self.storage.get(self.key(namespace, name))
        if item is None:
            raise not_found(self.resource.group_resource, name)
        return item

    async def get_object(self, version: Version, namespace: str, name: str) -> Object:
        """Return one object in a version; raises `NotFound`."""
        return await self.load(await self.read(namespace, name), version)

    async def load(self, item: KeyValue, version: Version) -> Object:
        """Decode a stored object in a version."""
        return await self.representation(version).object_async(item.value, item.mod_revision)

    async def written_value(self, key: str, value: bytes, revision: int) -> bytes:
        """Return what was stored by a write of `value`."""
        if not self.storage.rewrites:
            return value
        return (await self.storage.list(key, limit=1, revision=revision)).items[0].value

    async def load_written(self, version: Version, value: bytes, revision: int) -> Object:
        """Decode an object that was just stored as `value`, as later reads return it (0: dry run)."""
        obj = await self.load(KeyValue("", value, revision, revision), version)
        if not revision:
            del obj["metadata"]["resourceVersion"]
        return obj

    def changes(self, op: Operation) -> bool:
        """Whether a write may be stored in another form: by a backend, or as a custom resource in another
        version, which may lose fields."""
        resource = self.resource
        if self.storage.rewrites:
            return True
        return resource.custom and not resource.hub_version and op.version.name != resource.storage_version

    async def list_objects(
        self, version: Version, namespace: str = "", *, selection: Selection | None = None
    ) -> tuple[list[Object], int]:
        """Return all objects of one or all namespaces, and the revision they were read at.

        Raises `UndecodableObjects`, as `storage.list` does.
        """
        page = await self.storage.list(self.range(namespace))
        items = page.items
        if selection is not None:
            items = await self.select(items, selection)
        pairs = [(item.value, item.mod_revision) for item in items]
        return await self.representation(version).objects_async(pairs), page.revision

    async def select(self, items: list[KeyValue], selection: Selection) -> list[KeyValue]:
        """Return the selected items; other tasks run while many are scanned."""
        found: list[KeyValue] = []
        for at in range(0, len(items), _SCAN_SLICE):
            part = items[at : at + _SCAN_SLICE]
            if selection.converts:
                representation = self.representation(selection.version)
                converted = await representation.select(
                    [(item.value, item.mod_revision) for item in part], selection
                )
                found += [item for item, matches in zip(part, converted, strict=True) if matches]
                continue
            found += [item for item in part if selection.matches(selection.selectable(item.value))]
            if at:
                await asyncio.sleep(0)
        return found

    async def list_page(
        self, namespace: str, *, start: str | None, limit: int, revision: int, selection: Selection | None
    ) -> Page:
        """Read a page. With a selection, storage is read until `limit` objects are selected."""
        prefix = self.range(namespace)
        if not revision:
            revision = await self.storage.refresh(prefix, start=start, limit=limit, selection=selection)
        if selection is None:
            return await self.storage.list(prefix, start=start, limit=limit, revision=revision)
        name = selection.name
        if name and (namespace or not self.resource.namespaced):
            # At most one object: a range of one key.
            key = prefix + name
            page = await self.storage.list(key, start=start, limit=1, revision=revision)
            items = [item for item in page.items if item.key == key]
            return Page(await self.select(items, selection), page.revision, False, 0)
        if not limit:
            page = await self.storage.list(prefix, start=start, revision=revision)
            items = page.items
            if name:
                suffix = f"/{name}"
                items = [item for item in items if item.key.endswith(suffix)]
            return Page(await self.select(items, selection), page.revision, False, 0)
        found: list[KeyValue] = []
        batch = limit
        while True:
            page = await self.storage.list(prefix, start=start, limit=batch, revision=revision)
            revision = revision or page.revision
            selected = {item.key for item in await self.select(page.items, selection)}
            for position, item in enumerate(page.items):
                if item.key in selected:
                    found.append(item)
                    if len(found) == limit:
                        more = page.more or position + 1 < len(page.items)
                        return Page(found, page.revision, more, 0)
            if not page.more:
                return Page(found, page.revision, False, 0)
            start = page.items[-1].key + "\0"
            batch = min(batch * 2, 10_000)

    async def convert(self, obj: Object, from_version: str, to_version: str) -> Object:
        """Convert an object to another version; the given one may be changed."""
        if from_version == to_version:
            return obj
        assert self.resource.converter is not None
        made: Any = self.resource.converter.convert([obj], from_version, to_version)
        if inspect.isawaitable(made):
            made = await made
        converted: Object = made[0]
        return converted

    async def pack(self, obj: Object, version: str) -> bytes:
        """Encode an object of a version as it is stored."""
        resource = self.resource
        if version != resource.storage_version:
            obj = await self.convert(dict(obj), version, resource.storage_version)
            stored = resource.version(resource.storage_version)
            if resource.custom and stored is not None:
                upgrade_stored(obj, stored, resource)
        return self.codec.pack(obj)


class CheckedStorage(InstrumentedStorage):
    """Storage of one resource. `get` and `list` raise the errors of `StoredObjects`.

    Whatever reads a resource through it (requests, admission, controllers) cannot take an object that it is
    unable to decode for one that does not exist. `get_stored` and `list_stored` are for the few that handle
    such objects.
    """

    def __init__(self, storage: Storage, objects: StoredObjects, prefix: str, *, checked: bool) -> None:
        super().__init__(storage)
        self._objects = objects
        self._prefix = prefix
        self._is_checked = checked

    async def get(self, key: str) -> KeyValue | None:
        """Return a value; raises `UndecodableObject`."""
        item = await super().get(key)
        if item is not None and self._is_checked:
            error = self._objects.check_item(item)
            if error is not None:
                raise error.copy()
        return item

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        """Return a page; raises `UndecodableObjects`."""
        page, errors = await self.list_stored(prefix, start=start, limit=limit, revision=revision)
        self._objects.raise_for(errors)
        return page

    async def get_stored(self, key: str) -> tuple[KeyValue | None, UndecodableObject | None]:
        """Return a value, and the error if it cannot be decoded."""
        item = await super().get(key)
        if item is None or not self._is_checked:
            return item, None
        return item, self._objects.check(item.key, item.value, item.mod_revision)

    async def list_stored(
        self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0
    ) -> tuple[Page, Sequence[UndecodableObject]]:
        """Return a page with all values, and the errors of those that cannot be decoded."""
        page = await super().list(prefix, start=start, limit=limit, revision=revision)
        if not self._is_checked:
            return page, []
        complete = prefix == self._prefix and start is None and not page.more
        if not complete and self.shares_values and self._objects.can_check_all:
            # Once, so that lists of a part are not checked each time. Other storages would send all values.
            await self._objects.check_page(await self.storage.list(self._prefix), complete=True)
        return page, await self._objects.check_page(page, complete=complete)
