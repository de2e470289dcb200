"""The laws of storages on objects of other systems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kubewright import ObjectMeta
from kubewright.api.codec import from_plain, to_plain
from kubewright.extension import PageRequest, Rest
from kubewright.extension.testing import RestLaws

from .sql_queues import Queue, QueueSpec, SqlQueues


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
