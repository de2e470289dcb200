"""Informers: events of handlers, undecodable objects, failing handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver import AlwaysAllow, APIServer, HTTPRequest, Resource, Version
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.resources.stored_objects import UndecodableObject
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.controlplane.informers import Informers
from kubewright.storage import MemoryStorage

THINGS = "/api/v1/namespaces/ns/things"


class FailingWatch(MemoryStorage):
    """Storage whose watches end on request."""

    def __init__(self) -> None:
        super().__init__()
        self.watches: list[Any] = []
        self.dispatching: asyncio.Task[None] | None = None
        self.released = asyncio.Event()

    def watch(self, prefix: str, revision: int) -> Any:
        made = super().watch(prefix, revision)
        self.watches.append(made)
        return made

    async def revision(self) -> int:
        if self.dispatching is not None and asyncio.current_task() is self.dispatching:
            await self.released.wait()
        return await super().revision()

    def fail(self, dispatching: asyncio.Task[None] | None) -> None:
        """Have the watch need history that is compacted; the next one starts after `released`."""
        self.dispatching = dispatching
        watch = self.watches[-1]
        self._keyspace.compact(self._keyspace.revision)
        watch._position, watch._lagging = 0, True
        watch._wake()


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    made = APIServer(FailingWatch(), authorizer=AlwaysAllow())
    made.add(Resource(group="", kind="Thing", plural="things", versions=[Version(name="v1")]))
    async with made:
        yield made


@pytest.fixture
async def informers(server: APIServer) -> AsyncIterator[Informers]:
    made = Informers(server)
    yield made
    await made.stop()


@pytest.fixture
def client(server: APIServer) -> PathClient:
    return PathClient(server, SYSTEM)


def thing(name: str, **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name}, **data}


async def test_a_write_is_visible_when_it_is_acknowledged(informers: Informers, client: PathClient) -> None:
    assert await informers.list("", "things") == []
    for number in range(50):
        made = await client.create(THINGS, thing(f"t{number}"))
        found = await informers.get("", "things", f"t{number}", namespace="ns")
        assert found is not None
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
    await client.delete(f"{THINGS}/t0")
    assert await informers.get("", "things", "t0", namespace="ns") is None


async def test_handlers_receive_the_state_and_then_changes(informers: Informers, client: PathClient) -> None:
    await client.create(THINGS, thing("before"))
    seen: list[tuple[str, str]] = []
    informers.add_handler("", "things", lambda event: seen.append((event.type, event.name)))
    await informers.catch_up()
    await client.create(THINGS, thing("after"))
    await client.merge(f"{THINGS}/after", {"spec": {"a": 1}})
    await client.delete(f"{THINGS}/before")
    await informers.catch_up()
    assert seen == [("ADDED", "before"), ("ADDED", "after"), ("MODIFIED", "after"), ("DELETED", "before")]


async def test_a_lost_watch_reports_every_object(
    server: APIServer, informers: Informers, client: PathClient
) -> None:
    for name in ("deleted", "changed", "same"):
        await client.create(THINGS, thing(name, spec={"n": 1}))
    objects: list[tuple[str, str]] = []
    metadata: list[tuple[str, str]] = []
    informers.add_handler("", "things", lambda event: objects.append((event.type, event.name)))
    informers.add_handler_for_all(lambda resource, change: metadata.append((change.type, change.name)))
    await informers.catch_up()
    objects.clear()
    metadata.clear()
    storage = server.storage
    assert isinstance(storage, FailingWatch)
    storage.fail(server.dispatcher._task)
    async with asyncio.timeout(60):
        while informers.synced:
            await asyncio.sleep(0)
    await client.delete(f"{THINGS}/deleted")
    await client.merge(f"{THINGS}/changed", {"spec": {"n": 2}})
    await client.create(THINGS, thing("created"))
    assert not informers.synced
    storage.released.set()
    async with asyncio.timeout(60):
        while not informers.synced:
            await asyncio.sleep(0.01)
    # Also the one that is the same: a handler may have missed that it was changed and changed back.
    expected = [("ADDED", "created"), ("DELETED", "deleted"), ("MODIFIED", "changed"), ("MODIFIED", "same")]
    assert sorted(objects) == expected
    assert sorted(metadata) == expected


async def test_an_undecodable_object_keeps_its_last_state(
    server: APIServer, informers: Informers, client: PathClient
) -> None:
    seen: list[tuple[str, str]] = []
    informers.add_handler("", "things", lambda event: seen.append((event.type, event.name)))
    await client.create(THINGS, thing("first"))
    await informers.catch_up()
    store = server.store("", "things")
    assert store is not None
    key = store.key("ns", "first")
    item = await server.storage.get(key)
    assert item is not None
    await server.storage.update(key, b"\xff not JSON", expected=item.mod_revision)
    await client.create(THINGS, thing("second"))
    await informers.catch_up()
    assert seen == [("ADDED", "first"), ("ADDED", "second")]
    informer = await informers.informer("", "things")
    assert informer is not None
    last = informer.get("first", namespace="ns")
    assert last is not None
    assert last["metadata"]["resourceVersion"] == str(item.mod_revision)
    assert len(informer.list(namespace="ns")) == 2
    assert not informer.unknown()
    # A handler that is added now, and one after a list, receive the last state.
    later: list[tuple[str, str]] = []
    informers.add_handler("", "things", lambda event: later.append((event.type, event.name)))
    assert later == [("ADDED", "first"), ("ADDED", "second")]
    informer.relist()
    await informer.wait_until_current()
    assert ("DELETED", "first") not in seen
    assert informer.get("first", namespace="ns") is last
    metrics = await server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))
    assert b'kubewright_informer_undecodable_objects_total{group="",resource="things"} 1.0' in metrics.body
    assert informers.synced
    damaged = await server.storage.get(key)
    assert damaged is not None
    await server.storage.delete(key, expected=damaged.mod_revision)
    await informers.catch_up()
    assert seen[-1] == later[-1] == ("DELETED", "first")
    assert informer.get("first", namespace="ns") is None


async def test_an_undecodable_object_without_a_last_state_is_not_missing(
    server: APIServer, informers: Informers, client: PathClient
) -> None:
    store = server.store("", "things")
    assert store is not None
    key = store.key("ns", "damaged")
    await server.storage.create(key, b"\xff not JSON")
    await client.create(THINGS, thing("sound"))
    informer = await informers.informer("", "things")
    assert informer is not None
    assert informer.get("sound", namespace="ns") is not None
    assert ObjectKey("ns", "damaged") in informer
    with pytest.raises(UndecodableObject, match=key):
        informer.get("damaged", namespace="ns")
    for namespace in ("ns", ""):
        with pytest.raises(UndecodableObject, match=key):
            informer.list(namespace=namespace)
    assert informer.list(namespace="other") == []
    seen: list[str] = []
    informers.add_handler("", "things", lambda event: seen.append(event.name))
    assert seen == ["sound"]
    before = informer.generation
    damaged = await server.storage.get(key)
    assert damaged is not None
    await server.storage.delete(key, expected=damaged.mod_revision)
    await informers.catch_up()
    assert seen == ["sound"]
    assert informer.generation > before
    assert [each["metadata"]["name"] for each in informer.list()] == ["sound"]


async def test_a_failing_handler_is_isolated(
    server: APIServer, informers: Informers, client: PathClient, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def fail(change: ObjectChange) -> None:
        raise ValueError("broken handler")

    informers.add_handler("", "things", fail)
    informers.add_handler("", "things", lambda event: seen.append(event.name))
    for name in ("a", "b"):
        await client.create(THINGS, thing(name))
    await informers.catch_up()
    assert seen == ["a", "b"]
    assert "event handler failed" in caplog.text
    metrics = await server.handle(HTTPRequest("GET", "/metrics", user=SYSTEM))
    assert b'kubewright_informer_handler_errors_total{group="",resource="things"} 2.0' in metrics.body


@pytest.mark.parametrize("changes", [0, 1])
async def test_objects_that_a_handler_of_metadata_asks_for(
    informers: Informers, client: PathClient, changes: int
) -> None:
    """A handler can need the objects while it is called, from a list or for a change."""
    seen: list[str] = []
    for name in ("a", "b"):
        await client.create(THINGS, thing(name, spec={"n": 1}))

    def handle(change: ObjectChange) -> None:
        if not seen and (change.name == "c" or not changes):
            seen.append("asked")
            informers.add_handler(
                "", "things", lambda each: seen.append(each.entry.object["metadata"]["name"])
            )

    informers.add_handler("", "things", handle, needs="metadata")
    await informers.wait_for_sync()
    await client.create(THINGS, thing("c", spec={"n": 1}))
    found = await informers.list("", "things")
    assert [each["spec"] for each in found] == [{"n": 1}] * 3
    await informers.catch_up()
    assert set(seen) == {"asked", "a", "b", "c"}
