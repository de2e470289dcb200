"""Time travel in storages: branches share values, rewinds are ordinary changes that are visible together."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.storage import Compacted, FutureRevision, History, MemoryStorage, SQLiteStorage
from kubewright.storage.local import LocalStorage
from kubewright.storage.timeline import Timeline


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalStorage]:
    storage: LocalStorage = MemoryStorage()
    if request.param == "sqlite":
        storage = SQLiteStorage(tmp_path / "state.db", fsync=False)
    async with storage:
        yield storage


async def state(store: LocalStorage, revision: int = 0) -> dict[str, bytes]:
    return {each.key: each.value for each in (await store.list("/", revision=revision)).items}


def no_keys(key: str) -> bool:
    return False


async def test_a_rewind_restores_values_and_can_be_undone(store: LocalStorage) -> None:
    first = await store.create("/a", b"1")
    await store.create("/gone", b"x")
    await store.create("/kept", b"1")
    before = await store.revision()
    watch = store.watch("/", 0)
    await store.update("/a", b"2", expected=first)
    item = await store.get("/gone")
    assert item is not None
    await store.delete("/gone", expected=item.mod_revision)
    await store.create("/new", b"n")
    item = await store.get("/kept")
    assert item is not None
    await store.update("/kept", b"2", expected=item.mod_revision)
    after = await store.revision()
    later = await state(store)

    done = await store.rewind("/", before, keeps=lambda key: key == "/kept")
    assert (done.written, done.deleted, done.revision) == (2, 1, after + 3)
    assert await state(store) == {"/a": b"1", "/gone": b"x", "/kept": b"2"}
    assert await state(store, after) == later
    seen = []
    while len(seen) < 7:
        seen += await anext(aiter(watch))
    assert [event.revision for event in seen] == list(range(before + 1, after + 4))
    assert [(event.type, event.key) for event in seen[4:]] == [
        ("delete", "/new"),
        ("put", "/a"),
        ("put", "/gone"),
    ]
    assert (await store.rewind("/", after, keeps=no_keys)).revision == after + 6
    assert await state(store) == later
    assert (await store.rewind("/", after, keeps=no_keys)).revision == after + 6, "nothing differs"


async def test_a_key_that_was_created_again_is_deleted_first(store: LocalStorage) -> None:
    first = await store.create("/a", b"1")
    await store.delete("/a", expected=first)
    await store.create("/a", b"1")
    watch = store.watch("/", 0)
    await store.rewind("/", first, keeps=no_keys)
    seen = await anext(aiter(watch))
    assert [event.type for event in seen] == ["delete", "put"]
    found = await store.get("/a")
    assert found is not None
    assert found.value == b"1"
    assert (found.create_revision, found.mod_revision) == (first, first + 4)
    assert (await store.rewind("/", first, keeps=no_keys)).revision == first + 4, "nothing differs"


async def test_a_rewind_is_visible_in_one_step(store: LocalStorage) -> None:
    for number in range(50):
        await store.create(f"/{number:02}", b"1")
    revision = await store.revision()
    for number in range(50):
        item = await store.get(f"/{number:02}")
        assert item is not None
        await store.update(item.key, b"2", expected=item.mod_revision)
    seen: set[frozenset[bytes]] = set()

    async def read() -> None:
        while True:
            seen.add(frozenset(value for key, value in (await state(store)).items() if len(key) == 3))
            assert all(len(values) == 1 for values in seen), "old and new values at the same time"
            await asyncio.sleep(0)

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    others = [asyncio.create_task(store.create(f"/other/{number}", b"1")) for number in range(3)]
    await store.rewind("/", revision, keeps=lambda key: key.startswith("/other"))
    await asyncio.gather(*others)
    await asyncio.sleep(0.01)
    assert not reader.done(), reader.exception()
    reader.cancel()
    assert {frozenset((b"1",)), frozenset((b"2",))} <= seen
    assert set((await state(store)).values()) == {b"1"}


async def test_revisions_outside_of_the_history_are_rejected(store: LocalStorage) -> None:
    first = await store.create("/a", b"1")
    last = await store.update("/a", b"2", expected=first)
    await store.compact(last)
    with pytest.raises(Compacted):
        await store.rewind("/", first, keeps=no_keys)
    with pytest.raises(FutureRevision):
        await store.rewind("/", last + 1, keeps=no_keys)
    with pytest.raises(Compacted):
        store.branch(first)


async def test_a_branch_has_its_own_future_and_the_same_past(store: LocalStorage) -> None:
    first = await store.create("/a", b"1", ttl=3600)
    second = await store.update("/a", b"2", expected=first)
    async with store.branch(first) as branch:
        assert await state(branch) == {"/a": b"1"}
        assert await branch.update("/a", b"3", expected=first) == second
        assert await state(branch, first) == {"/a": b"1"}
        assert await state(store) == {"/a": b"2"}
        watch = branch.watch("/", first)
        assert [event.value for event in await anext(aiter(watch))] == [b"3"]


async def test_keys_of_a_branch_expire() -> None:
    now = 1000.0
    async with MemoryStorage(clock=lambda: now) as store:
        await store.create("/a", b"1", ttl=10)
        async with store.branch() as branch:
            assert await branch.expire() == 0
            now += 11
            assert await branch.expire() == 1
            assert await state(branch) == {}


async def test_a_branch_costs_memory_for_its_keys_not_for_its_values() -> None:
    size, count = 4096, 5000
    async with MemoryStorage() as store:
        for number in range(count):
            await store.create(f"/{number}", b"%d" % number + bytes(size))
        tracemalloc.start()
        try:
            branch = store.branch()
            cost, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert await state(branch) == await state(store)
    assert cost < count * size / 10, cost


async def test_times_of_a_sqlite_history_survive_a_restart(tmp_path: Path) -> None:
    now = 1000.0
    history = History(stores_times=True)
    path = tmp_path / "state.db"
    async with SQLiteStorage(path, history=history, clock=lambda: now, fsync=False) as store:
        first = await store.create("/a", b"1")
        now = 1010.0
        second = await store.create("/b", b"1")
    async with SQLiteStorage(path, history=history, clock=lambda: now, fsync=False) as store:
        timeline = store.keyspace.timeline
        assert [timeline.revision_at(at) for at in (999, 1000, 1009, 1010)] == [None, first, first, second]
        assert (timeline.time_of(first), timeline.time_of(second)) == (1000.0, 1010.0)
        await store.compact(second)
        assert timeline.revision_at(1005) is None
    async with SQLiteStorage(path, fsync=False) as store:
        await store.create("/c", b"1")  # without times, the file can be used as before


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 5)), max_size=30), st.floats(-1, 1001))
def test_a_timeline_returns_the_revision_of_a_time(steps: list[tuple[float, int]], at: float) -> None:
    timeline, entries, revision, last = Timeline(), [], 0, 0.0
    for time, more in steps:
        revision += more
        timeline.record(time, revision)
        last = max(last, time)
        entries.append((last, revision))
    found = timeline.revision_at(at)
    exact = [number for time, number in entries if time <= at]
    near = [number for time, number in entries if time <= at + 0.011]
    assert (found or 0) in range(exact[-1] if exact else 0, (near[-1] if near else 0) + 1)
    for time, number in entries:
        known = timeline.time_of(number)
        assert known is not None
        assert time - 0.011 <= known <= time
