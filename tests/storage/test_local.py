"""Expiry and history of memory and SQLite storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.storage import Compacted, History, StorageEvent, keyspace, open_storage
from kubewright.storage.keyspace import QUEUE_LIMIT
from kubewright.storage.local import LocalStorage
from kubewright.storage.memory import MemoryStorage


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., LocalStorage]:
    url = "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/state.db"

    def make(**options: object) -> LocalStorage:
        store = open_storage(url, **options)
        assert isinstance(store, LocalStorage)
        return store

    return make


async def test_keys_expire_as_deletions(local: Callable[..., LocalStorage]) -> None:
    clock = Clock()
    async with local(clock=clock) as store:
        await store.create("/short", b"1", ttl=10)
        await store.create("/long", b"2", ttl=100)
        kept = await store.create("/kept", b"3", ttl=10)
        kept = await store.update("/kept", b"4", expected=kept)
        renewed = await store.create("/renewed", b"5", ttl=10)
        renewed = await store.update("/renewed", b"6", expected=renewed, ttl=50)
        watch = store.watch("/", renewed)
        clock.now += 9
        assert await store.expire() == 0
        clock.now += 1
        assert await store.expire() == 1
        (event,) = await anext(aiter(watch))
        assert (event.type, event.key, event.revision) == ("delete", "/short", renewed + 1)
        assert [item.key for item in (await store.list("/")).items] == ["/kept", "/long", "/renewed"]
        clock.now += 90
        assert await store.expire() == 2
        assert [item.key for item in (await store.list("/")).items] == ["/kept"]


async def test_a_timer_expires_keys(local: Callable[..., LocalStorage]) -> None:
    async with local() as store:
        watch = store.watch("/", 0)
        await store.create("/k", b"1", ttl=0)
        types: list[str] = []
        async with asyncio.timeout(60):
            while "delete" not in types:
                types += [event.type for event in await anext(aiter(watch))]
        assert types == ["put", "delete"]


async def test_deadlines_survive_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(2):
        async with open_storage(f"sqlite:{tmp_path}/state.db", clock=clock) as store:
            if await store.get("/k") is None:
                await store.create("/k", b"1", ttl=10)
    clock.now += 11
    async with open_storage(f"sqlite:{tmp_path}/state.db", clock=clock) as store:
        assert isinstance(store, LocalStorage)
        await store.expire()
        assert await store.get("/k") is None


async def test_history_is_bounded_by_count(local: Callable[..., LocalStorage]) -> None:
    async with local(history=History(min_events=10, max_events=100)) as store:
        for number in range(500):
            await store.create(f"/{number}", b"v")
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while True:
                try:
                    await store.list("/", revision=300)
                except Compacted as error:
                    oldest = error.oldest
                    break
                await asyncio.sleep(0.01)
        assert oldest > 300
        assert len((await store.list("/", revision=480)).items) == 480
        assert len((await store.list("/")).items) == 500


async def test_history_of_large_values_is_bounded_by_bytes(local: Callable[..., LocalStorage]) -> None:
    """The bound holds below `min_events` too: 60 updates of 1 MB leave 16 MiB of replaced values."""
    async with local() as store:
        revision = await store.create("/large", b"v" * 1_000_000)
        for number in range(60):
            revision = await store.update("/large", b"%d" % number * 500_000, expected=revision)
        async with asyncio.timeout(60):
            while store._keyspace.overgrown:
                await asyncio.sleep(0)
        assert store._keyspace._history_bytes <= History().max_bytes * 1.1
        with pytest.raises(Compacted):
            await store.list("/", revision=20)


def test_history_rules() -> None:
    from kubewright.storage.keyspace import Keyspace

    def grown(rules: History) -> Keyspace:
        space = Keyspace(rules)
        space.apply(StorageEvent("put", "/k", b"v" * 100, None, 1, 1))
        for revision in range(2, 101):
            if revision == 50:
                space.mark(1000.0)
            space.apply(StorageEvent("put", "/k", b"v" * 100, space.live["/k"], 1, revision))
        return space

    assert grown(History(min_events=10)).compaction_due(1299.0) == 0
    assert grown(History(min_events=10)).compaction_due(1300.0) == 49
    assert grown(History(min_events=80)).compaction_due(1300.0) == 20
    assert grown(History(min_events=10, max_events=30)).compaction_due(0.0) == 70
    assert grown(History(min_events=10, max_bytes=2000)).compaction_due(0.0) == 80
    assert grown(History(min_events=40, max_bytes=2000)).compaction_due(0.0) == 80, "bytes are bounded always"


def test_lists_of_replaced_revisions_expire_while_watches_can_resume() -> None:
    """A continue token of a server with few writes is valid for `seconds`, as with kube-apiserver on etcd."""
    from kubewright.storage.keyspace import Keyspace

    space = Keyspace(History(seconds=300.0, min_events=1_000))
    space.apply(StorageEvent("put", "/k", b"a", None, 1, 1))
    space.mark(0.0)
    space.compaction_due(1_000.0)
    space.check_revision(1)  # still current
    space.apply(StorageEvent("put", "/k", b"b", space.live["/k"], 1, 2))
    space.mark(1_000.0)
    space.compaction_due(1_299.0)
    space.check_revision(1)
    assert space.compaction_due(1_300.0) == 0
    with pytest.raises(Compacted):
        space.check_revision(1)
    assert [event.revision for event in space.events_after(1, "/")] == [2]


changes = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["put", "delete", "wait", "compact"])), max_size=30
)


@settings(max_examples=100, deadline=None)
@given(changes)
def test_a_long_list_is_of_one_revision(ops: list[tuple[int, str]]) -> None:
    """Changes between the steps of a list are not in it; after a compaction it is read again."""

    async def run() -> None:
        async with MemoryStorage() as store:
            for number in range(0, 30, 2):
                await store.create(f"/a/{number:02}", b"0")
            await store.create("/b", b"0")
            listing = asyncio.create_task(store.list("/a/"))
            await asyncio.sleep(0)
            states = [(await store.list("/a/", limit=100)).items]
            revisions = [await store.revision()]
            for number, what in ops:
                key = f"/a/{number:02}"
                item = await store.get(key)
                if what == "wait":
                    await asyncio.sleep(0)
                elif what == "compact":
                    await store.compact(await store.revision())
                elif what == "put" and item is None:
                    await store.create(key, b"1")
                elif what == "put" and item is not None:
                    await store.update(key, b"2", expected=item.mod_revision)
                elif item is not None:
                    await store.delete(key, expected=item.mod_revision)
                states.append((await store.list("/a/", limit=100)).items)
                revisions.append(await store.revision())
            page = await listing
            assert not page.more
            assert page.items == states[revisions.index(page.revision)]
            if "compact" not in {what for _, what in ops}:
                assert page.revision == revisions[0]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keyspace, "LIST_SLICE", 3)
        asyncio.run(run())


async def test_other_tasks_run_during_a_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace, "LIST_SLICE", 10)
    async with MemoryStorage() as store:
        for number in range(100):
            await store.create(f"/a/{number:02}", b"0")
        listing = asyncio.create_task(store.list("/a/"))
        turns = 0
        while not listing.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 9
        assert len(listing.result().items) == 100


async def test_slow_watcher_reads_from_the_log(local: Callable[..., LocalStorage]) -> None:
    count = QUEUE_LIMIT + 100
    async with local() as store:
        watch = store.watch("/k/", 0)
        for at in range(0, count, 100):
            await asyncio.gather(*(store.create(f"/k/{n}", b"v") for n in range(at, at + 100)))
        seen: list[int] = []
        while len(seen) < count:
            seen += [event.revision for event in await anext(aiter(watch))]
        assert seen == list(range(1, count + 1))


async def test_too_slow_watcher_receives_compacted(local: Callable[..., LocalStorage]) -> None:
    count = QUEUE_LIMIT + 100
    async with local() as store:
        watch = store.watch("/k/", 0)
        for at in range(0, count, 100):
            await asyncio.gather(*(store.create(f"/k/{n}", b"v") for n in range(at, at + 100)))
        await store.compact(count)
        with pytest.raises(Compacted) as caught:
            await anext(aiter(watch))
        assert caught.value.oldest == count
