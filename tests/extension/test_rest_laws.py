"""The laws of storages on objects of other systems."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright import ObjectMeta
from kubewright.api.encoding.codec import from_plain, to_plain
from kubewright.api.errors import AlreadyExists, Conflict, NotFound
from kubewright.apiserver.encoding.representation import StorageCodec
from kubewright.apiserver.resources.typed import resource_of
from kubewright.extension import PageRequest, Rest
from kubewright.extension.rest.backend_storage import BackendStorage
from kubewright.extension.rest.testing import RestLaws
from kubewright.extension.rest.testing import _Delayed as Delayed
from kubewright.storage.contract import KeyExists, RevisionMismatch
from kubewright.storage.memory import MemoryStorage

from .sql_queues import Queue, QueueSpec, SqlQueues, queue


class QueueLaws(RestLaws):
    kind = Queue

    def new_object(self, metadata: ObjectMeta, text: str) -> Queue:
        return Queue(metadata=metadata, spec=QueueSpec(title=text))

    def text_of(self, obj: Queue) -> str:
        return obj.spec.title


class TestSql(QueueLaws):
    def new_rest(self) -> Rest[Queue]:
        return SqlQueues()


class Titles(Rest[Queue]):
    """A dict of titles: no `get`, no versions, no metadata."""

    def __init__(self) -> None:
        self.titles: dict[tuple[str, str], str] = {}

    async def list(self, *, namespace: str) -> Iterable[Queue]:
        return [
            Queue(metadata=ObjectMeta(name=name, namespace=place), spec=QueueSpec(title=title))
            for (place, name), title in self.titles.items()
            if namespace in ("", place)
        ]

    async def create(self, obj: Queue) -> None:
        self.titles[obj.metadata.namespace or "", obj.name] = obj.spec.title

    async def update(self, obj: Queue, old: Queue) -> None:
        await self.create(obj)

    async def delete(self, obj: Queue) -> None:
        del self.titles[obj.metadata.namespace or "", obj.name]


class TestMinimal(QueueLaws):
    def new_rest(self) -> Rest[Queue]:
        return Titles()

    test_large_ranges_are_ordered = None  # type: ignore[assignment] # without get, each write lists all


class Forgetful(SqlQueues):
    """Declares labels and does not store them; pages begin with the last object of the previous one."""

    def _columns(self, obj: Queue) -> Any:
        plain = to_plain(obj)
        plain["metadata"].pop("labels", None)
        return super()._columns(from_plain(plain, Queue))

    async def list_page(self, request: PageRequest) -> Iterable[Queue]:
        if request.after is not None:
            place, name = request.after
            request = replace(request, after=(place, name[:-1]))
        return await super().list_page(request)


class Reviving(SqlQueues):
    """Returns deleted objects again."""

    async def delete(self, obj: Queue) -> None:
        await self.get(obj.name, namespace=obj.metadata.namespace or "")


@pytest.mark.parametrize(
    ("rest", "law", "message"),
    [
        (Forgetful, "test_declared_metadata_is_stored", "labels is in stores, and labels was not stored"),
        (Forgetful, "test_pages_are_slices_of_the_list", "PageRequest"),
        (Reviving, "test_conflicts_return_the_current_value", "assert"),
    ],
)
def test_wrong_implementations_are_found(rest: type[SqlQueues], law: str, message: str) -> None:
    class Broken(QueueLaws):
        examples = 10

        def new_rest(self) -> Rest[Queue]:
            return rest()

    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        getattr(Broken(), law)()


keys = st.sampled_from(["a", "b"])
operations = st.tuples(
    st.sampled_from(["create", "increment", "delete", "get", "list", "page", "put there", "delete there"]),
    keys,
)


class Both:
    """A system that clients of the server and other writers change at the same time."""

    def __init__(self, rest: SqlQueues) -> None:
        self.rest = rest
        self.resource = resource_of(Queue)
        self.storage = BackendStorage(Delayed(rest), self.resource, MemoryStorage(), "/queues/")
        self.codec = StorageCodec(self.resource)
        self.increments = {"a": 0, "b": 0}
        """Acknowledged increments since the object was created."""

    def value(self, name: str, workers: int) -> bytes:
        return self.codec.pack(to_plain(queue(name, workers)))

    def workers(self, value: bytes) -> int:
        return from_plain(self.codec.unpack(value, 0), Queue).spec.workers

    async def run(self, operation: str, name: str) -> None:
        key = f"/queues/default/{name}"
        if operation == "create":
            with suppress(KeyExists):
                await self.storage.create(key, self.value(name, 0))
        elif operation == "increment":
            while (found := await self.storage.get(key)) is not None:
                with suppress(RevisionMismatch):
                    after = self.workers(found.value) + 1
                    await self.storage.update(key, self.value(name, after), expected=found.mod_revision)
                    self.increments[name] += 1
                    break
        elif operation == "delete":
            if (found := await self.storage.get(key)) is not None:
                with suppress(RevisionMismatch):
                    await self.storage.delete(key, expected=found.mod_revision)
        elif operation == "get":
            await self.storage.get(key)
        elif operation == "page":
            await self.storage.list("/queues/", limit=1)
        elif operation == "list":
            await self.storage.list("/queues/default/")
        elif operation == "put there":
            with suppress(AlreadyExists):
                await self.rest.create(queue(name, 100))
        else:
            with suppress(NotFound, Conflict):
                await self.rest.delete(await self.rest.get(name, namespace="default"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(operations, min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_watch_reconstructs_the_list_also_with_other_writers(batches: list[list[tuple[str, str]]]) -> None:
    async def check() -> None:
        both = Both(SqlQueues())
        await both.storage.open()
        states: dict[int, dict[str, bytes]] = {0: {}}
        lists: dict[int, dict[str, bytes]] = {}
        watch = both.storage.watch("/queues/", await both.storage.revision())

        async def follow() -> None:
            current: dict[str, bytes] = {}
            async for events in watch:
                for event in events:
                    assert event.revision > max(states)
                    assert (event.value is not None) or event.key in current, "deleted twice"
                    current = {key: value for key, value in current.items() if key != event.key}
                    if event.value is not None:
                        current[event.key] = event.value
                    states[event.revision] = current

        following = asyncio.create_task(follow())
        for batch in batches:
            await asyncio.gather(*(both.run(*each) for each in batch))
            page = await both.storage.list("/queues/")
            lists[page.revision] = {item.key: item.value for item in page.items}
            there = {
                f"/queues/default/{each.name}": each.spec.workers
                for each in await both.rest.list(namespace="")
            }
            assert {item.key: both.workers(item.value) for item in page.items} == there
        await asyncio.sleep(0)
        while watch.pending:
            await asyncio.sleep(0)
        if following.done():
            following.result()
        following.cancel()
        await asyncio.wait([following])
        for revision, listed in lists.items():
            assert states[max(each for each in states if each <= revision)] == listed
        if not any(
            operation in ("delete", "put there", "delete there")
            for batch in batches
            for operation, _ in batch
        ):
            for item in page.items:
                assert both.workers(item.value) == both.increments[item.key[-1]]
        await both.storage.close()

    asyncio.run(check())
