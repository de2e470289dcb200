"""One resource's objects in storage: keys, reading, converting.

Writes are in `writes` and `deletion`; this is what they, the endpoints and other parts of a server
(controllers in process, admission plug-ins) read with. Objects are dicts in the version asked for and
belong to the caller.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import not_found
from kubewright.apiserver.encoding.negotiation import PLAIN, ResponseFormat
from kubewright.apiserver.encoding.representation import Representation, StorageCodec
from kubewright.apiserver.metrics.storage import InstrumentedStorage
from kubewright.apiserver.watch.cache import WatchCache
from kubewright.patch import FieldManager
from kubewright.storage.contract import KeyValue, Page

from .object_schema import repair
from .patch_body import field_manager, with_conversions
from .selection import Selection

if TYPE_CHECKING:
    from kubewright.apiserver.objects import Object
    from kubewright.apiserver.resource import Resource, Version
    from kubewright.apiserver.server import APIServer
    from kubewright.apiserver.strategy import Operation


class ResourceStore:
    """Access to the objects of one resource."""

    def __init__(self, server: APIServer, resource: Resource) -> None:
        self.server = server
        self.resource = resource
        self.storage = InstrumentedStorage(server.storage)
        self.layout = StorageCodec(resource)
        self.prefix = f"{server.prefix}{resource.storage_prefix}/"
        self.watch_cache = WatchCache(
            server.dispatcher,
            self.prefix,
            namespaced=resource.namespaced,
            bookmark_interval=server.bookmark_interval,
        )
        self.watch_cache.on_count = server.metrics.watch_counter(resource)
        self.written = 0
        """The revision of the last write through this store; the hub hears of it a little later."""
        self._representations: dict[tuple[str, ResponseFormat, str], Representation] = {}
        self._managers: dict[tuple[str, str], FieldManager] = {}

    def close(self) -> None:
        """End watches; the resource is no longer served."""
        self.watch_cache.stop()

    def key(self, namespace: str, name: str) -> str:
        """Where an object is stored."""
        return f"{self.prefix}{namespace}/{name}" if self.resource.namespaced else f"{self.prefix}{name}"

    def range(self, namespace: str) -> str:
        """The common beginning of the keys of a namespace, or of all."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix

    def representation(
        self, version: Version, accepted: ResponseFormat = PLAIN, include: str = "Metadata"
    ) -> Representation:
        """The form in which objects are served; made once."""
        key = (version.name, accepted, include)
        found = self._representations.get(key)
        if found is None:
            found = self._representations[key] = Representation(self.layout, version, accepted, include)
        return found

    def field_manager(self, version: Version, subresource: str) -> FieldManager:
        """Who owns which field; made once per endpoint."""
        key = (version.name, subresource)
        found = self._managers.get(key)
        if found is None:
            found = self._managers[key] = field_manager(self.resource, version, subresource)
        return found

    async def own(self, version: Version, subresource: str, act: Callable[[FieldManager], Object]) -> Object:
        """Work out who owns which field: what `act` makes of the field manager of an endpoint."""
        manager = self.field_manager(version, subresource)
        if not self.representation(version).awaits:
            return act(manager)
        return await with_conversions(lambda: act(manager), self.convert)

    async def read(self, namespace: str, name: str) -> KeyValue:
        """The stored bytes of one object; raises `NotFound`."""
        item = await self.storage.get(self.key(namespace, name))
        if item is None:
            raise not_found(self.resource.group_resource, name)
        return item

    async def get_object(self, version: Version, namespace: str, name: str) -> Object:
        """One object in a version; raises `NotFound`."""
        return await self.load(await self.read(namespace, name), version)

    async def load(self, item: KeyValue, version: Version) -> Object:
        """A stored object in a version."""
        return (await self.representation(version).objects_async([(item.value, item.mod_revision)]))[0]

    async def echo(self, op: Operation, value: bytes, revision: int) -> Object:
        """What an answer shows of an object that was stored as `value`: what every later read will show."""
        obj = await self.load(KeyValue("", value, revision, revision), op.version)
        if not revision:
            del obj["metadata"]["resourceVersion"]
        return obj

    def converts(self, op: Operation) -> bool:
        """Whether what a client sends is stored in another version, which may not hold all of it."""
        resource = self.resource
        return resource.custom and not resource.hub_version and op.version.name != resource.storage_version

    async def list_objects(
        self, version: Version, namespace: str = "", *, selection: Selection | None = None
    ) -> tuple[list[Object], int]:
        """All objects of a namespace, or of all namespaces, and the revision they were read at."""
        page = await self.storage.list(self.range(namespace))
        items = page.items
        if selection is not None:
            items = [item for item in items if selection.matches(selection.facts(item.value))]
        pairs = [(item.value, item.mod_revision) for item in items]
        return await self.representation(version).objects_async(pairs), page.revision

    async def list_page(
        self, namespace: str, *, start: str | None, limit: int, revision: int, selection: Selection | None
    ) -> Page:
        """Part of a list. With a selection, reads on until `limit` objects are selected."""
        prefix = self.range(namespace)
        if selection is None:
            return await self.storage.list(prefix, start=start, limit=limit, revision=revision)
        if not limit:
            page = await self.storage.list(prefix, start=start, revision=revision)
            chosen = [item for item in page.items if selection.matches(selection.facts(item.value))]
            return Page(chosen, page.revision, False, 0)
        found: list[KeyValue] = []
        batch = limit
        while True:
            page = await self.storage.list(prefix, start=start, limit=batch, revision=revision)
            revision = revision or page.revision
            for position, item in enumerate(page.items):
                if selection.matches(selection.facts(item.value)):
                    found.append(item)
                    if len(found) == limit:
                        more = page.more or position + 1 < len(page.items)
                        return Page(found, page.revision, more, 0)
            if not page.more:
                return Page(found, page.revision, False, 0)
            start = page.items[-1].key + "\0"
            batch = min(batch * 2, 10_000)

    async def convert(self, obj: Object, from_version: str, to_version: str) -> Object:
        """An object in another version. The given one belongs to the callee."""
        if from_version == to_version:
            return obj
        assert self.resource.converter is not None
        converted: Any = self.resource.converter.convert([obj], from_version, to_version)
        if inspect.isawaitable(converted):
            converted = await converted
        return converted[0]  # type: ignore[no-any-return]

    async def pack(self, obj: Object, version: str) -> bytes:
        """The bytes that are stored for an object of a version."""
        resource = self.resource
        if version != resource.storage_version:
            obj = await self.convert(dict(obj), version, resource.storage_version)
            stored = resource.version(resource.storage_version)
            if resource.custom and stored is not None:
                repair(obj, stored, resource)
        return self.layout.pack(obj)
