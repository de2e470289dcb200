"""Resources whose objects come from another system."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import pytest

from kubewright import APIServerApp, Client, Column, CustomResource, ObjectMeta, Spec, resource
from kubewright.api.errors import Conflict, MethodNotAllowed, NotFound
from kubewright.client import merge_patch
from kubewright.extension import Rest
from kubewright.testing import RunningApp

pytestmark = pytest.mark.control_plane(controllers=False)


class BookSpec(Spec):
    title: str = ""
    pages: int = 100


@resource(
    group="library.example.com",
    version="v1",
    selectable_fields=(".spec.title",),
    columns=(Column("Title", ".spec.title"),),
)
class Book(CustomResource[BookSpec, None]):
    """A book in a table of another system."""


class Table(Rest[Book]):
    """A table with the title of each book, by namespace and name."""

    poll_interval = 0.05

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}

    def _books(self, namespace: str) -> Iterator[Book]:
        for (place, name), title in self.rows.items():
            if namespace in ("", place):
                yield book(name, title, place)

    async def list(self, *, namespace: str) -> Iterable[Book]:
        return self._books(namespace)

    async def create(self, obj: Book) -> None:
        self.rows[obj.metadata.namespace or "", obj.name] = obj.spec.title

    async def update(self, obj: Book, old: Book) -> None:
        assert old.spec.title == self.rows[old.metadata.namespace or "", old.name]
        await self.create(obj)

    async def delete(self, obj: Book) -> None:
        del self.rows[obj.metadata.namespace or "", obj.name]


class Clock(Rest[Book]):
    """One computed object, which can only be read by name."""

    async def get(self, name: str, *, namespace: str) -> Book:
        if name != "now":
            raise NotFound(f"no book {name}")
        return book("now", "computed", namespace)


def book(name: str, title: str, namespace: str = "default") -> Book:
    return Book(metadata=ObjectMeta(name=name, namespace=namespace), spec=BookSpec(title=title))


def library(rest: Rest[Book]) -> APIServerApp:
    app = APIServerApp("library")
    app.add(Book, rest=rest)
    return app


async def test_reads_are_current_and_selected(client: Client, running_app: RunningApp) -> None:
    table = Table()
    table.poll_interval = 60.0
    await running_app(library(table))
    table.rows["default", "a"] = "Emma"
    table.rows["other", "b"] = "Ulysses"
    first = await client.get(Book, "a")
    assert (first.spec.title, first.spec.pages) == ("Emma", 100)
    assert first.metadata.uid
    again = await client.get(Book, "a")
    assert again.metadata.resource_version == first.metadata.resource_version  # nothing has changed
    table.rows["default", "a"] = "Persuasion"
    changed = await client.get(Book, "a")
    assert int(changed.metadata.resource_version or 0) > int(first.metadata.resource_version or 0)
    assert changed.metadata.uid == first.metadata.uid
    listed = await client.list(Book, fields={"spec.title": "Ulysses"})
    assert [each.name for each in listed] == ["b"]
    del table.rows["default", "a"]
    with pytest.raises(NotFound, match=r'books\.library\.example\.com "a" not found'):
        await client.get(Book, "a")


async def test_writes_reach_the_backend(client: Client, running_app: RunningApp) -> None:
    table = Table()
    await running_app(library(table))
    made = await client.create(book("a", "Emma"))
    assert table.rows == {("default", "a"): "Emma"}
    await client.patch(Book, "a", merge_patch({"spec": {"title": "Persuasion"}}))
    assert table.rows["default", "a"] == "Persuasion"
    made.spec.title = "Lost"
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.update(made)
    await client.delete(Book, "a")
    assert table.rows == {}


async def test_server_side_apply(client: Client, running_app: RunningApp) -> None:
    table = Table()
    await running_app(library(table))
    created = await client.apply(book("a", "Emma"), field_manager="ada")
    assert table.rows == {("default", "a"): "Emma"}
    assert [each.manager for each in created.metadata.managed_fields or ()] == ["ada"]
    with pytest.raises(Conflict, match=r'conflict with "ada": \.spec\.title'):
        await client.apply(book("a", "Persuasion"), field_manager="bob")
    assert table.rows["default", "a"] == "Emma"
    changed = await client.apply(book("a", "Persuasion"), field_manager="bob", force=True)
    assert table.rows["default", "a"] == "Persuasion"
    assert changed.metadata.resource_version != created.metadata.resource_version
    read = await client.get(Book, "a")  # the refresh from the table keeps the managers
    assert read.metadata.managed_fields == changed.metadata.managed_fields
    assert read.metadata.resource_version == changed.metadata.resource_version
    same = await client.apply(book("a", "Persuasion"), field_manager="bob", force=True)
    assert same.metadata.resource_version == read.metadata.resource_version
    await client.patch(Book, "a", merge_patch({"spec": {"pages": 7}}), field_manager="eve")
    managers = (await client.get(Book, "a")).metadata.managed_fields or []
    assert {each.manager for each in managers} >= {"bob", "eve"}
    tried = await client.apply(book("b", "Lost"), field_manager="ada", dry_run=True)
    assert tried.spec.title == "Lost"
    assert ("default", "b") not in table.rows


async def test_watches_see_changes_of_the_backend(client: Client, running_app: RunningApp) -> None:
    table = Table()
    await running_app(library(table))
    table.rows["default", "a"] = "Emma"
    async with asyncio.timeout(60), client.watch(Book, namespace="default") as watch:
        first = await anext(watch)
        assert (first.type, first.object.spec.title) == ("ADDED", "Emma")
        table.rows["default", "a"] = "Persuasion"
        assert (await anext(watch)).object.spec.title == "Persuasion"
        del table.rows["default", "a"]
        assert (await anext(watch)).type == "DELETED"


async def test_methods_decide_the_verbs(client: Client, running_app: RunningApp) -> None:
    await running_app(library(Clock()))
    assert (await client.get(Book, "now")).spec.title == "computed"
    with pytest.raises(MethodNotAllowed):
        await client.list(Book)
    with pytest.raises(NotFound):
        await client.get(Book, "then")
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert Table().verbs == verbs
