"""Lists in a version that is not stored: correct after every change, and converted once per change."""

from __future__ import annotations

from typing import ClassVar, Self

import pytest

from kubewright import APIServerApp, Client, CustomResource, ObjectMeta, Spec, resource
from kubewright.apiserver.encoding import converted_items
from kubewright.client import merge_patch
from kubewright.extension import serve_app


class NewSpec(Spec):
    text: str = ""
    size: int = 1


class OldSpec(Spec):
    words: list[str] = []


@resource(group="lists.example.com", version="v2", hub=True)
class Entry(CustomResource[NewSpec, None]):
    """An entry."""


@resource(group="lists.example.com", version="v1", kind="Entry")
class OldEntry(CustomResource[OldSpec, None]):
    """An entry with another shape."""

    converted: ClassVar[list[str]] = []

    def convert_to(self, hub: type[Entry]) -> Entry:
        return hub(metadata=self.metadata, spec=NewSpec(text=" ".join(self.spec.words)))

    @classmethod
    def convert_from(cls, hub: Entry) -> Self:
        cls.converted.append(hub.name)
        return cls(metadata=hub.metadata, spec=OldSpec(words=hub.spec.text.split()))


def entry(name: str, text: str) -> Entry:
    return Entry(metadata=ObjectMeta(name=name, namespace="default"), spec=NewSpec(text=text))


async def words(client: Client) -> dict[str, list[str]]:
    """List the old version, and check it against single objects."""
    found = {each.name: each async for each in client.list(OldEntry, namespace="default")}
    OldEntry.converted.clear()
    for name, listed in found.items():
        single = await client.get(OldEntry, name, namespace="default")
        assert listed.metadata == single.metadata
    OldEntry.converted.clear()
    return {name: each.spec.words for name, each in found.items()}


@pytest.mark.parametrize("limit", [converted_items.MAX_BYTES, 2000, 1])
async def test_lists_of_another_version(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted_items, "MAX_BYTES", limit)
    app = APIServerApp("lists")
    app.add(Entry, OldEntry)
    async with serve_app(app, None) as running:
        client = running.client()
        for number in range(5):
            await client.create(entry(f"e{number}", f"text {number}"))
        expected = {f"e{number}": ["text", str(number)] for number in range(5)}
        assert await words(client) == expected
        await client.patch(Entry, "e1", merge_patch({"spec": {"text": "new"}}), namespace="default")
        await client.delete(Entry, "e2", namespace="default")
        await client.create(entry("e9", "last"))
        expected = {**expected, "e1": ["new"], "e9": ["last"]}
        del expected["e2"]
        assert await words(client) == expected
        await client.delete(Entry, "e9", namespace="default")
        await client.create(entry("e9", "again"))
        assert await words(client) == {**expected, "e9": ["again"]}
        managed = await client.get(OldEntry, "e1", namespace="default")
        assert managed.metadata.managed_fields


async def test_unchanged_objects_are_not_converted_again() -> None:
    app = APIServerApp("lists")
    app.add(Entry, OldEntry)
    async with serve_app(app, None) as running:
        client = running.client()
        for number in range(3):
            await client.create(entry(f"e{number}", "text"))
        await client.list(OldEntry)
        OldEntry.converted.clear()
        await client.list(OldEntry)
        assert OldEntry.converted == []
        await client.patch(Entry, "e1", merge_patch({"spec": {"text": "new"}}), namespace="default")
        await client.list(OldEntry)
        assert OldEntry.converted == ["e1"]
