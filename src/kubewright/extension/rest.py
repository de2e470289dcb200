"""Resources whose objects come from another system: a computation, an SQL table, another REST API.

    class Metrics(Rest[NodeMetrics]):
        async def list(self, *, namespace: str) -> list[NodeMetrics]: ...

    app.add(NodeMetrics, rest=Metrics())

`BackendCopy` copies the objects to the storage of the server, and requests read from there: get, list and
watch, selectors, pagination and Tables work as for stored objects, and resource versions are revisions of the
storage. A get or list first copies what it requests; watches see changes after `poll_interval` at the latest.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from kubewright.api.codec import from_plain, to_plain
from kubewright.api.errors import APIError, NotFound, conflict
from kubewright.api.meta import MetaObject
from kubewright.api.times import now
from kubewright.apiserver.subresource import SubresourceRequest
from kubewright.storage.contract import KeyExists, KeyValue, RevisionMismatch

if TYPE_CHECKING:
    from kubewright.apiserver.resource import VerbFunction
    from kubewright.apiserver.rest.store import ResourceStore
    from kubewright.client import Client

Object = dict[str, Any]
ObjectT = TypeVar("ObjectT", bound=MetaObject)
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

logger = logging.getLogger(__name__)

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Rest(Generic[ObjectT]):
    """Objects of a kind in another system. Override the methods that the system supports.

    The verbs of the resource follow from the methods: `get`, `list` (also `watch`), `create`, `update` (also
    `patch`) and `delete`. Raise an `APIError` (`NotFound`, `Forbidden`) where it applies. `uid` and
    `creationTimestamp` are set if the system has none.
    """

    poll_interval: float = 10.0
    """Seconds between calls of `list` for watches, if there is no `watch`."""

    client: Client
    """A client of the cluster that the server runs behind; set before the first call of a method."""

    async def get(self, name: str, *, namespace: str) -> ObjectT:
        """Return one object; raise `NotFound`."""
        raise NotImplementedError

    async def list(self, *, namespace: str) -> Iterable[ObjectT]:
        """Return all objects of a namespace, or of all namespaces if it is empty."""
        raise NotImplementedError

    async def create(self, obj: ObjectT) -> ObjectT | None:
        """Create an object that passed admission and validation; return it as the system stored it."""
        raise NotImplementedError

    async def update(self, obj: ObjectT, old: ObjectT) -> ObjectT | None:
        """Replace an object; return it as the system stored it."""
        raise NotImplementedError

    async def delete(self, obj: ObjectT) -> None:
        """Delete an object."""
        raise NotImplementedError

    def watch(self) -> AsyncIterator[tuple[ChangeType, ObjectT]]:
        """Return the changes of all objects; when it ends, objects are listed again."""
        raise NotImplementedError

    def supports(self, method: str) -> bool:
        """Whether a method is overridden."""
        return getattr(type(self), method) is not getattr(Rest, method)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs that the overridden methods support."""
        supported = {
            method for method in ("get", "list", "create", "update", "delete") if self.supports(method)
        }
        if "list" in supported:
            supported |= {"get", "watch"}
        if "update" in supported and "get" in supported:
            supported.add("patch")
        return tuple(sorted(supported))


class BackendCopy:
    """Copies the objects of a `Rest` to the storage of a server, and writes through it."""

    def __init__(self, kind: type[MetaObject], rest: Rest[Any]) -> None:
        self._kind = kind
        self._rest = rest
        self._store: ResourceStore | None = None
        self._lock = asyncio.Lock()
        self._last: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def handlers(self) -> dict[str, VerbFunction]:
        """Functions of the verbs that write."""
        functions: dict[str, VerbFunction] = {
            "create": self._create,
            "update": self._update,
            "patch": self._update,
            "delete": self._delete,
        }
        return {verb: function for verb, function in functions.items() if verb in self._rest.verbs}

    async def start(self, store: ResourceStore, cluster: Client | None = None) -> None:
        """Copy all objects, and follow their changes if the resource can be watched."""
        self._store = store
        if cluster is not None:
            self._rest.client = cluster
        if self._rest.supports("list") and "watch" in store.resource.verbs:
            self._task = asyncio.create_task(self._follow(), name=f"backend of {store.resource.plural}")

    async def stop(self) -> None:
        """Stop to follow changes."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        rest = self._rest
        while True:
            try:
                await self._refresh_all("")
                if rest.supports("watch"):
                    async for type_, obj in rest.watch():
                        async with self._lock:
                            await (self._remove(obj) if type_ == "DELETED" else self._put(obj))
                    continue
            except Exception as error:
                # A backend can fail in any way; requests report its errors, watches continue later.
                logger.warning(
                    "could not read objects of the backend",
                    extra={"kind": self._kind.__name__, "error": f"{type(error).__name__}: {error}"},
                )
            await asyncio.sleep(rest.poll_interval)

    # Reads

    async def refresh(self, namespace: str, name: str) -> None:
        """Copy an object or a namespace before a request reads it."""
        if name and self._rest.supports("get"):
            try:
                found = await self._rest.get(name, namespace=namespace)
            except NotFound:
                async with self._lock:
                    await self._remove_key(self._checked_store.key(namespace, name))
                return
            async with self._lock:
                await self._put(found)
        elif self._rest.supports("list"):
            await self._refresh_all(namespace)

    async def _refresh_all(self, namespace: str) -> None:
        """Copy all objects of a namespace; requests that wait for the same copy share it."""
        loop = asyncio.get_running_loop()
        requested, store = loop.time(), self._checked_store
        async with self._lock:
            if max(self._last.get(namespace, -1.0), self._last.get("", -1.0)) > requested:
                return
            started = loop.time()
            listed = list(await self._rest.list(namespace=namespace))
            stored = {each.key: each for each in (await store.storage.list(store.range(namespace))).items}
            for obj in listed:
                plain = self._plain(obj)
                key = store.key(plain["metadata"].get("namespace") or "", plain["metadata"]["name"])
                await self._write(key, plain, stored.pop(key, None))
            for key in stored:
                await self._remove_key(key)
            self._last[namespace] = started

    @property
    def _checked_store(self) -> ResourceStore:
        assert self._store is not None, "the server has not started"
        return self._store

    def _plain(self, obj: MetaObject) -> Object:
        store = self._checked_store
        plain: Object = to_plain(obj)
        metadata = {**plain.get("metadata", {})}
        metadata.pop("resourceVersion", None)
        if not store.resource.namespaced:
            metadata.pop("namespace", None)
        gvk = store.resource.gvk(store.resource.storage_version)
        rest = {
            name: value for name, value in plain.items() if name not in ("apiVersion", "kind", "metadata")
        }
        return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **rest}

    # Writes to storage

    async def _put(self, obj: MetaObject, managed: Any = None) -> Object:
        plain = self._plain(obj)
        if managed:
            plain["metadata"]["managedFields"] = managed
        store = self._checked_store
        key = store.key(plain["metadata"].get("namespace") or "", plain["metadata"]["name"])
        return await self._write(key, plain, await store.storage.get(key))

    async def _write(self, key: str, plain: Object, current: KeyValue | None) -> Object:
        """Store an object if it differs from the stored one; return it with its resource version."""
        store, metadata = self._checked_store, plain["metadata"]
        stored: Object = store.codec.unpack(current.value, current.mod_revision) if current else {}
        before = stored.get("metadata") or {}
        group = str(store.resource.group_resource)
        metadata.setdefault("uid", before.get("uid") or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{group}{key}")))
        created = before.get("creationTimestamp") or now().strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata.setdefault("creationTimestamp", created)
        if before.get("managedFields"):
            # The backend does not have them.
            metadata.setdefault("managedFields", before["managedFields"])
        if store.resource.versions[0].checks is not None:
            store.resource.versions[0].checks.default(plain)
        version = before.pop("resourceVersion", "")
        if current is None or plain != stored:
            value = await store.pack(plain, store.resource.storage_version)
            try:
                if current is None:
                    revision = await store.storage.create(key, value)
                else:
                    revision = await store.storage.update(key, value, expected=current.mod_revision)
            except (KeyExists, RevisionMismatch):
                # Another replica has copied the object.
                found = await store.storage.get(key)
                revision = found.mod_revision if found is not None else 0
            store.written, version = revision, str(revision)
        return {**plain, "metadata": {**metadata, "resourceVersion": version}}

    async def _remove(self, obj: MetaObject) -> None:
        plain = self._plain(obj)["metadata"]
        await self._remove_key(self._checked_store.key(plain.get("namespace") or "", plain["name"]))

    async def _remove_key(self, key: str) -> None:
        store = self._checked_store
        current = await store.storage.get(key)
        if current is not None:
            try:
                store.written = await store.storage.delete(key, expected=current.mod_revision)
            except RevisionMismatch:
                return

    # Verbs

    async def _create(self, call: SubresourceRequest) -> Object:
        obj = from_plain(call.object, self._kind)
        created = await self._rest.create(obj)
        async with self._lock:
            return await self._put(created if created is not None else obj, _managed_fields(call))

    async def _update(self, call: SubresourceRequest) -> Object:
        assert call.object is not None
        resource, old = call.resource.group_resource, call.old_object
        if old is None:
            raise NotFound(f'{resource} "{call.name}" not found')
        wanted = call.object["metadata"].get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            raise conflict(resource, call.name, MODIFIED)
        obj = from_plain(call.object, self._kind)
        updated = await self._rest.update(obj, from_plain(old, self._kind))
        async with self._lock:
            return await self._put(updated if updated is not None else obj, _managed_fields(call))

    async def _delete(self, call: SubresourceRequest) -> Object:
        resource, old = call.resource.group_resource, call.old_object
        if old is None:
            raise NotFound(f'{resource} "{call.name}" not found')
        _check_preconditions(call, old)
        obj = from_plain(old, self._kind)
        await self._rest.delete(obj)
        async with self._lock:
            await self._remove(obj)
        details = {"name": call.name, "group": resource.group, "kind": resource.resource}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _managed_fields(call: SubresourceRequest) -> Any:
    assert call.object is not None
    return call.object["metadata"].get("managedFields")


def _check_preconditions(call: SubresourceRequest, old: Object) -> None:
    given = (call.body or {}).get("preconditions") or {}
    for name, field in (("uid", "uid"), ("resourceVersion", "resourceVersion")):
        if given.get(name) and given[name] != old["metadata"].get(field):
            why = f"Precondition failed: {field} does not match"
            error: APIError = conflict(call.resource.group_resource, call.name, why)
            raise error


__all__ = ["BackendCopy", "Rest"]
