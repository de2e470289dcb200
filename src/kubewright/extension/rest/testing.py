"""Tests of the contract of `Rest`, for every implementation.

    class TestBooks(RestLaws):
        kind = Book

        def new_rest(self) -> Rest[Book]:
            return Books(sqlite3.connect(":memory:"))

        def new_object(self, metadata: ObjectMeta, text: str) -> Book:
            return Book(metadata=metadata, spec=BookSpec(title=text))

        def text_of(self, obj: Book) -> str:
            return obj.spec.title

pytest runs the laws of storages (`StorageLaws`) on the `Rest`, with reads that overlap all writes, and the
further laws of this module. They need the extra `testing` (pytest and hypothesis).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.meta import MetaObject, ObjectMeta, OwnerReference
from kubewright.api.values.times import now
from kubewright.apiserver.encoding.representation import StorageCodec
from kubewright.apiserver.resources.typed import resource_of
from kubewright.storage.contract import (
    KeyExists,
    KeyValue,
    Page,
    RevisionMismatch,
    Storage,
    StorageEvent,
    StorageWatch,
)
from kubewright.storage.memory import MemoryStorage
from kubewright.storage.testing import StorageLaws

from .backend_storage import BackendStorage
from .rest import PageRequest, Rest

_PREFIX = "/registry/laws/"
_NAMESPACE = "laws"
_OVERLAPPED = 200
"""Writes of a test that are overlapped by lists; further ones by reads of their key."""


class _Delayed(Rest[Any]):
    """A `Rest` whose calls, and whose results, are delayed by other tasks."""

    def __init__(self, rest: Rest[Any]) -> None:
        self._rest = rest
        self._random = random.Random(0)  # noqa: S311 - an order of tasks
        self.stores, self.poll_interval = rest.stores, rest.poll_interval

    def supports(self, method: str) -> bool:
        return self._rest.supports(method)

    async def _call(self, method: str, *args: Any, **keywords: Any) -> Any:
        await self._pause()
        try:
            return await getattr(self._rest, method)(*args, **keywords)
        finally:
            await self._pause()

    async def _pause(self) -> None:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)

    async def get(self, name: str, *, namespace: str) -> Any:
        return await self._call("get", name, namespace=namespace)

    async def list(self, *, namespace: str) -> Iterable[Any]:
        await self._pause()
        found = list(await self._rest.list(namespace=namespace))
        await self._pause()
        return found

    async def list_page(self, request: PageRequest) -> Iterable[Any]:
        return list(await self._call("list_page", request))

    async def create(self, obj: Any) -> Any:
        return await self._call("create", obj)

    async def update(self, obj: Any, old: Any) -> Any:
        return await self._call("update", obj, old)

    async def delete(self, obj: Any) -> None:
        await self._call("delete", obj)


class _LawStorage(Storage):
    """A storage with the keys and values of `StorageLaws` whose objects are in a `Rest`.

    Keys become names (in hexadecimal, which has the same order), values a text of the objects. Every write is
    overlapped by reads.
    """

    shares_values = True

    def __init__(self, laws: RestLaws, rest: Rest[Any]) -> None:
        resource = resource_of(laws.kind)
        self._laws = laws
        self._codec = StorageCodec(resource)
        self._place = f"{_PREFIX}{_NAMESPACE}/" if resource.namespaced else _PREFIX
        self._namespace = _NAMESPACE if resource.namespaced else None
        self._storage = BackendStorage(rest, resource, MemoryStorage(), _PREFIX)
        self._writes = 0

    async def open(self) -> None:
        await self._storage.open()

    async def close(self) -> None:
        await self._storage.close()

    def _key(self, key: str) -> str:
        return self._place + key.encode().hex()

    def _value(self, key: str, value: bytes) -> bytes:
        metadata = ObjectMeta(name=key.encode().hex(), namespace=self._namespace)
        return self._codec.pack(to_plain(self._laws.new_object(metadata, value.hex())))

    def _text(self, value: bytes) -> bytes:
        obj: Any = from_plain(self._codec.unpack(value, 0), self._laws.kind)
        return bytes.fromhex(self._laws.text_of(obj))

    def _item(self, item: KeyValue) -> KeyValue:
        key = bytes.fromhex(item.key.removeprefix(self._place)).decode()
        return item._replace(key=key, value=self._text(item.value))

    def event(self, event: StorageEvent) -> StorageEvent:
        """Return an event with the key and values of the laws."""
        return event._replace(
            key=bytes.fromhex(event.key.removeprefix(self._place)).decode(),
            value=self._text(event.value) if event.value is not None else None,
            previous=self._item(event.previous) if event.previous is not None else None,
        )

    async def revision(self) -> int:
        return await self._storage.revision()

    async def get(self, key: str) -> KeyValue | None:
        found = await self._storage.get(self._key(key))
        return self._item(found) if found is not None else None

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        first = self._key(start) if start is not None else None
        page = await self._storage.list(self._key(prefix), start=first, limit=limit, revision=revision)
        return page._replace(items=[self._item(item) for item in page.items])

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        return await self._overlapped(key, self._storage.create(self._key(key), self._value(key, value)))

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        write = self._storage.update(self._key(key), self._value(key, value), expected=expected)
        return await self._overlapped(key, write)

    async def delete(self, key: str, *, expected: int) -> int:
        return await self._overlapped(key, self._storage.delete(self._key(key), expected=expected))

    async def _overlapped(self, key: str, write: Any) -> int:
        self._writes += 1
        reads: list[Any] = [self._storage.get(self._key(key))]
        if self._writes < _OVERLAPPED and self._storage.rest.supports("list"):
            reads.append(self._storage.list(self._place))
        tasks = [asyncio.create_task(read) for read in reads]
        try:
            revision: int = await write
            return revision
        except (KeyExists, RevisionMismatch) as error:
            current = error.current
            if current is not None:
                error.current = self._item(current)
            raise
        finally:
            await asyncio.gather(*tasks)

    def watch(self, prefix: str, revision: int) -> StorageWatch:
        return _LawWatch(self, self._storage.watch(self._key(prefix), revision))

    async def compact(self, revision: int) -> None:
        await self._storage.compact(revision)


class _LawWatch(StorageWatch):
    def __init__(self, storage: _LawStorage, watch: StorageWatch) -> None:
        self._storage = storage
        self._watch = watch
        self._batches = aiter(watch)

    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        return self

    async def __anext__(self) -> list[StorageEvent]:
        return [self._storage.event(event) for event in await anext(self._batches)]

    async def progress(self) -> int:
        return await self._watch.progress()

    @property
    def pending(self) -> bool:
        return self._watch.pending

    def close(self) -> None:
        self._watch.close()


class RestLaws(StorageLaws):
    """Tests of the contract; a subclass, whose name begins with `Test`, returns its `Rest`s.

    Acknowledged writes are all stored, a watch reconstructs the list at any revision, pages are slices of the
    list, and a deleted object never returns, whatever reads and lists overlap the writes.
    """

    kind: type[MetaObject]
    """The kind of the objects."""
    examples = 25

    def new_rest(self) -> Rest[Any]:
        """Return a new `Rest` without objects."""
        raise NotImplementedError

    def new_object(self, metadata: ObjectMeta, text: str) -> Any:
        """Return an object with a text in a field that the system stores."""
        raise NotImplementedError

    def text_of(self, obj: Any) -> str:
        """Return that text."""
        raise NotImplementedError

    def new_storage(self) -> Storage:
        """Return a storage for the laws of storages."""
        rest = self.new_rest()
        missing = {"create", "update", "delete"} - set(rest.verbs)
        assert not missing, f"the laws need a Rest with {', '.join(sorted(missing))}"
        return _LawStorage(self, _Delayed(rest))

    @property
    def _namespace(self) -> str:
        return _NAMESPACE if resource_of(self.kind).namespaced else ""

    def _metadata(self, name: str, **fields: Any) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=self._namespace or None, creation_timestamp=now(), **fields)

    async def _get(self, rest: Rest[Any], name: str) -> Any:
        if rest.supports("get"):
            return await rest.get(name, namespace=self._namespace)
        found = [each for each in await rest.list(namespace=self._namespace) if each.metadata.name == name]
        if not found:
            raise NotFound(name)
        return found[0]

    def test_values_are_opaque(self) -> None:
        """A text of any content is stored."""

        async def check() -> None:
            rest = self.new_rest()
            for number, text in enumerate(["", "'; --", "é\n\U0001f600", "x" * 10_000]):
                await rest.create(self.new_object(self._metadata(f"n{number}"), text))
                assert self.text_of(await self._get(rest, f"n{number}")) == text

        asyncio.run(check())

    def test_declared_metadata_is_stored(self) -> None:
        """The system returns what `stores` declares: after a create, an update, and its removal."""
        owner = OwnerReference(api_version="v1", kind="ConfigMap", name="a", uid="1", controller=True)
        values: dict[str, dict[str, Any]] = {
            "labels": {"labels": {"app": "a"}},
            "annotations": {"annotations": {"note": "a b"}},
            "ownerReferences": {"owner_references": [owner]},
            "finalizers": {"finalizers": ["example.com/a"]},
        }

        async def check() -> None:
            rest = self.new_rest()
            for number, stored in enumerate(each for each in values if each in rest.stores):
                fields = dict(values[stored])
                await rest.create(self.new_object(self._metadata(f"n{number}", **fields), "1"))
                for _ in range(2):
                    if stored == "finalizers" and "deletion_timestamp" not in fields:
                        fields |= {"deletion_timestamp": now(), "deletion_grace_period_seconds": 7}
                    found = await self._get(rest, f"n{number}")
                    await rest.update(self.new_object(self._metadata(f"n{number}", **fields), "2"), found)
                    found = await self._get(rest, f"n{number}")
                    for name, value in fields.items():
                        kept = getattr(found.metadata, name)
                        assert (kept or None) == value, f"{stored} is in stores, and {name} was not stored"
                    fields = dict.fromkeys(fields)

        asyncio.run(check())

    def test_pages_are_slices_of_the_list(self) -> None:
        """`list_page` returns slices of the list in the order of names."""

        async def check() -> None:
            rest = self.new_rest()
            if not rest.supports("list_page"):
                pytest.skip(f"{type(rest).__name__} has no list_page")
            names = [f"n{number * 7 % 11:02}" for number in range(11)]
            for name in names:
                await rest.create(self.new_object(self._metadata(name), name))
            names.sort()
            place = self._namespace
            for namespace in {place, ""}:
                for limit in (0, 1, 4, 11, 20):
                    for position in range(-1, len(names)):
                        after = (place, names[position]) if position >= 0 else None
                        request = PageRequest(namespace=namespace, after=after, limit=limit)
                        page = [each.metadata.name for each in await rest.list_page(request)]
                        rest_of = names[position + 1 :]
                        assert page == (rest_of[:limit] if limit else rest_of), request

        asyncio.run(check())

    def test_old_versions_are_rejected(self) -> None:
        """A system with versions rejects an update of an older version."""

        async def check() -> None:
            rest = self.new_rest()
            await rest.create(self.new_object(self._metadata("a"), "1"))
            old = await self._get(rest, "a")
            if old.metadata.resource_version is None:
                pytest.skip(f"{type(rest).__name__} returns no metadata.resource_version")
            await rest.update(self.new_object(self._metadata("a"), "2"), old)
            with pytest.raises(Conflict):
                await rest.update(self.new_object(self._metadata("a"), "3"), old)
            with pytest.raises(Conflict):
                await rest.delete(old)
            assert self.text_of(await self._get(rest, "a")) == "2"

        asyncio.run(check())
