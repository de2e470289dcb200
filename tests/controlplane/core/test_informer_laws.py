"""Laws of `cache.Informer` that hold for both its sources: requests to an API server, and storage.

Ordering: handlers see the versions of an object in the order of their revisions, and their picture is the
state. Revisions: after `wait_for_revision(n)` the store contains every change up to n. Lost watch: after it
the informer is not current until it has the state again, whatever happened meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controlplane.core.test_informers import THINGS, FailingWatch, thing
from tests.controlplane.path_client import PathClient

from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver import AlwaysAllow, APIServer, Resource, Version
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.cache import Informer, ListWatch, ObjectChange, ObjectKey, SharedEntry
from kubewright.client import Client
from kubewright.controlplane.informers import Informers
from kubewright.controlplane.storage_list_watch import StorageListWatch

THING = GroupVersionKind("", "v1", "Thing")


class Picture:
    """A handler that keeps the state it received, and checks the order of the changes."""

    def __init__(self) -> None:
        self.revisions: dict[ObjectKey, int] = {}
        self.repeated: set[str] = set()
        self.last = 0

    def __call__(self, change: ObjectChange) -> None:
        known = self.revisions.get(change.key)
        assert known == (None if change.old is None else change.old.revision), change
        if change.new is None:
            del self.revisions[change.key]
        elif change.new.revision == known:
            assert change.initial
            self.repeated.add(change.name)
        else:
            assert change.new.revision > (known or 0), change
            if not change.initial:
                assert change.new.revision > self.last, "changes of several objects are out of order"
                self.last = change.new.revision
            self.revisions[change.key] = change.new.revision


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    made = APIServer(FailingWatch(), authorizer=AlwaysAllow())
    made.add(Resource(group="", kind="Thing", plural="things", versions=[Version(name="v1")]))
    async with made:
        yield made


@pytest.fixture
def client(server: APIServer) -> PathClient:
    return PathClient(server, SYSTEM)


@pytest.fixture(params=["requests", "requests, shared entries", "storage"])
async def informer(request: pytest.FixtureRequest, server: APIServer) -> AsyncIterator[Informer]:
    if request.param == "storage":
        informers = Informers(server)
        found = await informers.informer("", "things")
        assert found is not None
        yield found
        await informers.stop()
        return
    form = SharedEntry.of if "shared" in request.param else None
    client = Client.from_transport(InProcessTransport(server, SYSTEM))
    made = Informer(THING, {"": ListWatch(client, THING)}, form=form)
    made.start()
    async with asyncio.timeout(60):
        await made.wait_for_sync()
    yield made
    await made.stop()


async def write(client: PathClient, rng: random.Random, existing: set[str]) -> int:
    """Create, change or delete an object; return the revision."""
    name = f"t{rng.randrange(6)}"
    if name not in existing:
        existing.add(name)
        made = await client.create(THINGS, thing(name))
    elif rng.random() < 0.3:
        existing.discard(name)
        await client.delete(f"{THINGS}/{name}")
        return 0
    else:
        made = await client.merge(f"{THINGS}/{name}", {"spec": {"n": rng.random()}})
    return int(made["metadata"]["resourceVersion"])


async def revisions(client: PathClient) -> tuple[dict[ObjectKey, int], int]:
    listed = await client.get("/api/v1/things")
    state = {
        ObjectKey("ns", item["metadata"]["name"]): int(item["metadata"]["resourceVersion"])
        for item in listed["items"]
    }
    return state, int(listed["metadata"]["resourceVersion"])


def stored(informer: Informer) -> dict[ObjectKey, int]:
    return {key: entry.revision for key, entry in informer.store.entries()}


@pytest.mark.parametrize("seed", range(5))
async def test_after_waiting_for_a_revision_its_change_is_stored(
    informer: Informer, client: PathClient, seed: int
) -> None:
    rng, existing, picture = random.Random(seed), set[str](), Picture()
    informer.add_handler(picture)
    async with asyncio.timeout(60):
        for _ in range(30):
            revision = await write(client, rng, existing)
            if rng.random() < 0.5:
                await informer.wait_for_revision(revision)
                state, _ = await revisions(client)
                missing = {key: at for key, at in state.items() if at <= revision}.items() - stored(
                    informer
                ).items()
                assert not missing
        state, revision = await revisions(client)
        await informer.wait_for_revision(revision)
    assert stored(informer) == state == picture.revisions
    assert {name for _, name in stored(informer)} == existing
    assert [obj["metadata"]["name"] for obj in informer.list(namespace="ns")] == sorted(existing)


@pytest.mark.parametrize("seed", range(3))
async def test_after_a_lost_watch_the_state_is_received_again(
    informer: Informer, client: PathClient, server: APIServer, seed: int
) -> None:
    rng, existing, picture = random.Random(seed), set[str](), Picture()
    informer.add_handler(picture)
    storage: Any = server.storage
    assert isinstance(storage, FailingWatch)
    async with asyncio.timeout(120):
        for _ in range(10):
            await write(client, rng, existing)
        _, revision = await revisions(client)
        await informer.wait_for_revision(revision)
        await informer.wait_until_current()
        assert informer.is_current
        storage.fail(server.dispatcher._task)
        if isinstance(informer._feeds[0].reflector.source, StorageListWatch):
            while informer.is_current:
                await asyncio.sleep(0)
            assert informer.has_synced
            assert not informer.is_fresh
        else:
            # Only the server knows that its watch is lost; the client sees the end of its own one.
            while server.dispatcher.connected:
                await asyncio.sleep(0)
        for _ in range(10):
            await write(client, rng, existing)
        state = {each.key: each.mod_revision for each in (await storage.list(server.prefix)).items}
        waiting = asyncio.ensure_future(informer.wait_for_revision(max(state.values(), default=0)))
        storage.released.set()
        await waiting
        await informer.wait_until_current()
        while {name for _, name in stored(informer)} != existing:
            await asyncio.sleep(0.01)
    assert picture.revisions == stored(informer)
    final, _ = await revisions(client)
    assert stored(informer) == final
