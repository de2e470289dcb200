"""The storage of a kind whose objects are in another system (`Rest`).

    request -> the path of stored objects -> BackendStorage -> the methods of the Rest
                                                            -> the copy, a storage with revisions and history

The system has the objects; the copy has what Kubernetes clients need besides: revisions, history, watches,
and metadata that the system does not store. Reads of the current state first read the system and update the
copy, reads at a revision read the copy alone.

One lock per key is around everything that is done for it: read the system, compare the revision, call the
method that writes, update the copy. A list does not hold these locks: it leaves out the keys that were locked
while the system produced it, because what it has of them may be older than the copy.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.errors import AlreadyExists, Conflict, NotFound, invalid, method_not_allowed, not_found
from kubewright.api.meta import MetaObject
from kubewright.apiserver.encoding.representation import StorageCodec
from kubewright.apiserver.resources.objects import Object, current_timestamp, new_uid
from kubewright.background import run_forever
from kubewright.storage.contract import (
    KeyExists,
    KeyValue,
    ListSelection,
    Page,
    RevisionMismatch,
    Storage,
    StorageWatch,
)

from .rest import LAST_APPLIED, PageRequest, Rest

if TYPE_CHECKING:
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.client import Client

logger = logging.getLogger(__name__)

_KEPT = ("uid", "creationTimestamp", "generateName")
"""Metadata of the copy that stays if the system returns none."""
_RELISTS = 10
"""Poll intervals between lists of a system with a watch, in case a change was not reported."""
_REMEMBERED_UIDS = 1000
"""Deleted objects whose uids are known."""
_APPLY_SLICE = 100
"""Objects of a list that are compared with the copy before other tasks run."""


class _KeyLock(asyncio.Lock):
    """The lock of a key, with the number of tasks that hold or want it and the time of the last read."""

    users = 0
    read = 0


class BackendStorage(Storage):
    """Writes to a `Rest`, and reads through a copy of it."""

    rewrites = True

    def __init__(self, rest: Rest[Any], resource: Resource, copy: Storage, prefix: str) -> None:
        """Keep the copy in the storage `copy`, whose keys of the resource begin with `prefix`."""
        version = resource.version(resource.storage_version)
        assert version is not None
        assert version.type is not None
        self.rest = rest
        self.copy = copy
        self.shares_values = copy.shares_values
        self.manages_compaction = copy.manages_compaction
        self.is_shared = copy.is_shared
        self._resource = resource
        self._kind: type[MetaObject] = version.type
        self._checks = version.checks
        self._codec = StorageCodec(resource)
        self._prefix = prefix
        self._locks: dict[str, _KeyLock] = {}
        self._listings: list[set[str]] = []
        """For each list that is being read, the keys that were locked since it began."""
        self._list_locks: dict[str, asyncio.Lock] = {}
        self._listed: dict[str, int] = {}
        self._ticks = itertools.count(1)
        self._complete = False
        """Whether the copy has all objects, apart from changes since the last poll."""
        self._deleted: dict[str, str] = {}
        """The uids of the objects that were deleted last, by key."""
        self._writes: set[asyncio.Task[int]] = set()
        self._reflector: asyncio.Task[None] | None = None

    # Lifecycle

    async def start(self, cluster: Client | None = None) -> None:
        """Start to follow the changes of the system, if the resource can be watched."""
        if cluster is not None:
            self.rest.client = cluster
        if self.rest.supports("list") and "watch" in self._resource.verbs:
            name = f"backend of {self._resource.plural}"
            self._reflector = run_forever(self._reflect, name=name)

    async def stop(self) -> None:
        """Stop to follow changes, and wait for the writes that have begun."""
        if self._reflector is not None:
            self._reflector.cancel()
            await asyncio.gather(self._reflector, return_exceptions=True)
            self._reflector = None
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def open(self) -> None:
        await self.copy.open()

    async def close(self) -> None:
        await self.stop()
        await self.copy.close()

    async def _reflect(self) -> None:
        rest = self.rest
        while True:
            try:
                if rest.supports("watch"):
                    async with asyncio.TaskGroup() as group:
                        watching = group.create_task(self._observe_changes())
                        await self._poll(watching)
                else:
                    await self._refresh_all("")
                    self._complete = True
            except Exception as error:
                self._complete = False
                # A system can fail in any way; requests report its errors, watches continue later.
                causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
                logger.warning(
                    "could not read objects of the backend",
                    extra={
                        "kind": self._kind.__name__,
                        "error": "; ".join(f"{type(each).__name__}: {each}" for each in causes),
                    },
                )
            await asyncio.sleep(rest.poll_interval)

    async def _poll(self, watching: asyncio.Task[None]) -> None:
        """List all objects now and from time to time, until the watch ends."""
        await asyncio.sleep(0)  # the watch begins first, so that no change is between it and the list
        while not watching.done():
            await self._refresh_all("")
            self._complete = True
            await asyncio.wait({watching}, timeout=self.rest.poll_interval * _RELISTS)

    async def _observe_changes(self) -> None:
        async for type_, obj in self.rest.watch():
            key = self._key_of(obj)
            current = await self.copy.get(key)
            if type_ == "DELETED":
                known = current is None
            else:
                known = current is not None and self._merge(key, obj, self._decode(current)) == self._decode(
                    current
                )
            if not known:
                await self.get(key)

    # Keys and objects

    def _split(self, key: str) -> tuple[str, str]:
        relative = key.removeprefix(self._prefix)
        if not self._resource.namespaced:
            return "", relative
        namespace, _, name = relative.partition("/")
        return namespace, name

    def _key_of(self, obj: MetaObject) -> str:
        metadata = obj.metadata
        place = f"{metadata.namespace or ''}/" if self._resource.namespaced else ""
        return f"{self._prefix}{place}{metadata.name}"

    def _decode(self, item: KeyValue) -> Object:
        obj = self._codec.unpack(item.value, item.mod_revision)
        del obj["metadata"]["resourceVersion"]
        return obj

    def _typed(self, obj: Object, version: str | None) -> MetaObject:
        """Return an object for the system, with the version that the system has for it."""
        typed = from_plain(obj, self._kind)
        typed.metadata.resource_version = version
        return typed

    def _merge(
        self, key: str, found: MetaObject, before: Object | None, given: Object | None = None
    ) -> Object:
        """Return what the copy stores for an object of the system.

        `before` is the object in the copy, `given` the one that was just written.
        """
        plain: Object = to_plain(found)
        metadata: Object = {**(plain.get("metadata") or {})}
        metadata.pop("resourceVersion", None)
        if not self._resource.namespaced:
            metadata.pop("namespace", None)
        old = before["metadata"] if before is not None else {}
        written = given["metadata"] if given is not None else old
        known = {**old, **written}
        if before is None and not metadata.get("uid"):
            metadata["uid"] = self._new_uid(key, metadata.get("creationTimestamp"), known.get("uid"))
        for name in _KEPT:
            if metadata.get(name) is None and name in known:
                metadata[name] = known[name]
        metadata.setdefault("creationTimestamp", current_timestamp())
        if written.get("managedFields"):
            metadata.setdefault("managedFields", written["managedFields"])
        applied = (written.get("annotations") or {}).get(LAST_APPLIED)
        if applied and "annotations" not in self.rest.stores:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), LAST_APPLIED: applied}
        gvk = self._resource.gvk(self._resource.storage_version)
        fields = {name: plain[name] for name in plain if name not in ("apiVersion", "kind", "metadata")}
        obj = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **fields}
        if self._checks is not None:
            self._checks.default(obj)
        if "generation" not in metadata:
            metadata["generation"] = self._generation(obj, before, known.get("generation"))
        return obj

    def _new_uid(self, key: str, created: str | None, given: str | None) -> str:
        """Return the uid of an object for which the system has none; `given` if it is being created.

        It is the same after a restart if the system has a creation time, which tells a new object of the
        same name from the old one, and for objects that existed when the server started.
        """
        if created is not None or not (given or self._complete):
            text = f"{self._resource.group_resource}{key}{created or ''}"
            derived = str(uuid.uuid5(uuid.NAMESPACE_URL, text))
            if derived != self._deleted.get(key):  # creation times are in seconds
                return derived
        return given or new_uid()

    def _generation(self, obj: Object, before: Object | None, known: int | None) -> int:
        if known is None:
            return 1
        if before is None:
            return known
        fields = (obj.keys() | before.keys()) - {"metadata", "status"}
        changed = any(obj.get(name) != before.get(name) for name in fields)
        written = before["metadata"].get("generation")
        return known + 1 if changed and known == written else known

    # The system

    async def _fetch(self, key: str) -> MetaObject | None:
        """Return an object of the system."""
        namespace, name = self._split(key)
        try:
            if self.rest.supports("get"):
                found: MetaObject = await self.rest.get(name, namespace=namespace)
                return found
            for each in await self.rest.list(namespace=namespace):
                if self._key_of(each) == key:
                    listed: MetaObject = each
                    return listed
        except NotFound:
            pass
        return None

    async def _read(self, key: str) -> tuple[MetaObject | None, KeyValue | None]:
        """Read an object of the system and update the copy; the key is locked."""
        found = await self._fetch(key)
        if found is None:
            await self._remove(key)
            return None, None
        return found, await self._put(key, found)

    @asynccontextmanager
    async def _locked(self, key: str) -> AsyncIterator[_KeyLock]:
        lock = self._locks.setdefault(key, _KeyLock())
        lock.users += 1
        try:
            async with lock:
                for keys in self._listings:
                    keys.add(key)
                yield lock
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[key]

    # The copy

    async def _put(self, key: str, found: MetaObject, given: Object | None = None) -> KeyValue:
        """Store an object of the system in the copy, if it differs; the key is locked."""
        while True:
            current = await self.copy.get(key)
            with suppress(KeyExists, RevisionMismatch):  # another replica has updated the copy
                return await self._replace(key, found, current, given)

    async def _replace(
        self, key: str, found: MetaObject, current: KeyValue | None, given: Object | None = None
    ) -> KeyValue:
        before = self._decode(current) if current is not None else None
        uid = found.metadata.uid
        if current is not None and before is not None and uid and uid != before["metadata"].get("uid"):
            # Another object of the same name: watches see the old one deleted.
            await self._remove_item(current)
            current = before = None
        obj = self._merge(key, found, before, given)
        if current is not None and obj == before:
            return current
        value = self._codec.pack(obj)
        if current is None:
            revision = await self.copy.create(key, value)
            return KeyValue(key, value, revision, revision)
        revision = await self.copy.update(key, value, expected=current.mod_revision)
        return KeyValue(key, value, current.create_revision, revision)

    async def _remove(self, key: str) -> int:
        """Delete an object from the copy; the key is locked."""
        while True:
            current = await self.copy.get(key)
            if current is None:
                return await self.copy.revision()
            with suppress(RevisionMismatch):
                return await self._remove_item(current)

    async def _remove_item(self, item: KeyValue) -> int:
        revision = await self.copy.delete(item.key, expected=item.mod_revision)
        self._deleted[item.key] = self._decode(item)["metadata"]["uid"]
        if len(self._deleted) > _REMEMBERED_UIDS:
            del self._deleted[next(iter(self._deleted))]
        return revision

    # Lists

    async def refresh(
        self,
        prefix: str,
        *,
        start: str | None = None,
        limit: int = 0,
        selection: ListSelection | None = None,
    ) -> int:
        namespace, partial = self._split(prefix) if len(prefix) > len(self._prefix) else ("", "")
        if not prefix.removeprefix(self._prefix).count("/"):
            namespace = ""
        name = selection.name if selection is not None else ""
        if name and (namespace or not self._resource.namespaced):
            await self.get(prefix if partial else prefix + name)
        elif not self.rest.supports("list"):
            pass
        elif self._can_page(limit, selection, partial):
            await self._refresh_page(prefix, namespace, start, limit, selection)
        else:
            await self._refresh_all(namespace)
        return await self.copy.revision()

    def _can_page(self, limit: int, selection: ListSelection | None, partial: str) -> bool:
        """Whether a part of the objects is sufficient for a list.

        Further pages are read from the copy, at the revision of the first one, so it must have all objects.
        """
        if partial or not self.rest.supports("list_page") or not self.rest.supports("get"):
            return False
        if selection is not None and selection.converts:
            return False
        return self._complete if limit else selection is not None

    async def _refresh_all(self, namespace: str) -> None:
        """Copy all objects of a namespace; requests that wait for the same list share it."""
        requested = next(self._ticks)
        lock = self._list_locks.setdefault(namespace, asyncio.Lock())
        async with lock:
            if max(self._listed.get(namespace, 0), self._listed.get("", 0)) > requested:
                return
            started = next(self._ticks)
            prefix = f"{self._prefix}{namespace}/" if namespace else self._prefix
            async with self._listing() as locked:
                stored = {item.key: item for item in (await self.copy.list(prefix)).items}
                listed = await self.rest.list(namespace=namespace)
                await self._apply(listed, stored, locked)
                for key, item in stored.items():
                    if key not in locked:
                        with suppress(RevisionMismatch):
                            await self._remove_item(item)
            if len(self._listed) > 1000:
                self._listed.clear()
            self._listed[namespace] = started
        if not lock.locked():
            self._list_locks.pop(namespace, None)

    async def _refresh_page(
        self, prefix: str, namespace: str, start: str | None, limit: int, selection: ListSelection | None
    ) -> None:
        """Copy a page of the selected objects."""
        after = self._split(start.rstrip("\0")) if start is not None else None
        request = PageRequest(
            namespace=namespace,
            after=after,
            limit=limit,
            labels=selection.labels if selection is not None else None,
            fields=selection.fields if selection is not None else None,
        )
        async with self._listing() as locked:
            page = await self.copy.list(prefix, start=start, limit=0 if selection is not None else limit)
            listed = list(await self.rest.list_page(request))
            last = self._key_of(listed[-1]) if limit and len(listed) >= limit else None
            stored = {
                item.key: item
                for item in page.items
                if (last is None or item.key <= last) and (selection is None or selection.selects(item.value))
            }
            missing = dict(stored)
            for obj in listed:
                missing.pop(self._key_of(obj), None)
            for obj in listed:
                key = self._key_of(obj)
                if key not in stored and (current := await self.copy.get(key)) is not None:
                    stored[key] = current
            await self._apply(listed, stored, locked)
        for key in missing:
            await self.get(key)  # deleted, or no longer selected

    @asynccontextmanager
    async def _listing(self) -> AsyncIterator[set[str]]:
        """Collect the keys that are locked while a list is read."""
        locked = set(self._locks)
        self._listings.append(locked)
        try:
            yield locked
        finally:
            self._listings = [each for each in self._listings if each is not locked]

    async def _apply(
        self, listed: Iterable[MetaObject], stored: dict[str, KeyValue], locked: set[str]
    ) -> None:
        """Update the copy with listed objects, which are removed from `stored`."""
        for number, obj in enumerate(listed, 1):
            key = self._key_of(obj)
            current = stored.pop(key, None)
            if key in locked:
                continue
            with suppress(KeyExists, RevisionMismatch):  # written since the list began
                await self._replace(key, obj, current)
            if number % _APPLY_SLICE == 0:
                await asyncio.sleep(0)

    # The contract of a storage

    async def revision(self) -> int:
        return await self.copy.revision()

    async def get(self, key: str) -> KeyValue | None:
        requested = next(self._ticks)
        async with self._locked(key) as lock:
            if lock.read > requested:  # for another request that waited for the same lock
                return await self.copy.get(key)
            lock.read = next(self._ticks)
            return (await self._read(key))[1]

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        if not revision:
            revision = await self.refresh(prefix, start=start, limit=limit)
        return await self.copy.list(prefix, start=start, limit=limit, revision=revision)

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        return await self._complete_write(self._create(key, value))

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        return await self._complete_write(self._update(key, value, expected))

    async def delete(self, key: str, *, expected: int) -> int:
        return await self._complete_write(self._delete(key, expected))

    async def _complete_write(self, write: Coroutine[Any, Any, int]) -> int:
        """Await a write, which is completed even if the request is cancelled."""
        task = asyncio.create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return await asyncio.shield(task)

    async def _create(self, key: str, value: bytes) -> int:
        self._check_supports("create")
        async with self._locked(key):
            _, current = await self._read(key)
            if current is not None:
                raise KeyExists(current)
            given = self._decode(KeyValue(key, value, 0, 0))
            try:
                stored = await self.rest.create(self._typed(given, None))
            except AlreadyExists:
                _, current = await self._read(key)
                if current is not None:
                    raise KeyExists(current) from None
                raise
            except BaseException:
                await self._read_after_failure(key)
                raise
            return await self._store_written(key, stored, given)

    async def _update(self, key: str, value: bytes, expected: int) -> int:
        self._check_supports("update")
        async with self._locked(key):
            found, current = await self._read(key)
            if found is None or current is None or current.mod_revision != expected:
                raise RevisionMismatch(key, current)
            given = self._decode(KeyValue(key, value, 0, 0))
            resource = self._resource
            errors = self.rest.unsupported_changes(given, self._decode(current), str(resource.group_resource))
            if errors:  # those of clients are validated before; a deletion adds finalizers
                raise invalid(resource.group_kind, self._split(key)[1], errors)
            try:
                stored = await self.rest.update(self._typed(given, found.metadata.resource_version), found)
            except (Conflict, NotFound):
                await self._raise_if_changed(key, expected)
                raise
            except BaseException:
                await self._read_after_failure(key)
                raise
            return await self._store_written(key, stored, given)

    async def _delete(self, key: str, expected: int) -> int:
        self._check_supports("delete")
        async with self._locked(key):
            found, current = await self._read(key)
            if found is None or current is None or current.mod_revision != expected:
                raise RevisionMismatch(key, current)
            try:
                await self.rest.delete(found)
            except NotFound:
                pass
            except Conflict:
                await self._raise_if_changed(key, expected)
                raise
            except BaseException:
                await self._read_after_failure(key)
                raise
            return await self._remove(key)

    async def _store_written(self, key: str, stored: MetaObject | None, given: Object) -> int:
        if stored is None:
            stored = await self._fetch(key)
        if stored is None:
            await self._remove(key)
            raise not_found(self._resource.group_resource, self._split(key)[1])
        return (await self._put(key, stored, given)).mod_revision

    async def _raise_if_changed(self, key: str, expected: int) -> None:
        """Report a conflict with another writer of the system as one with a revision."""
        _, current = await self._read(key)
        if current is None or current.mod_revision != expected:
            raise RevisionMismatch(key, current)

    async def _read_after_failure(self, key: str) -> None:
        """Update the copy after a call that failed, whose effect is unknown."""
        with suppress(Exception):
            await self._read(key)

    def _check_supports(self, method: str) -> None:
        if not self.rest.supports(method):
            raise method_not_allowed(self._resource.group_resource, method)

    def watch(self, prefix: str, revision: int) -> StorageWatch:
        return self.copy.watch(prefix, revision)

    async def compact(self, revision: int) -> None:
        await self.copy.compact(revision)

    def is_stale(self, item: KeyValue) -> bool:
        return self.copy.is_stale(item)

    def check_health(self) -> None:
        self.copy.check_health()

    async def size(self) -> int | None:
        return await self.copy.size()
