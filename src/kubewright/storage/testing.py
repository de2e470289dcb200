"""Tests of the storage contract, for every implementation of `Storage`.

    class TestMyStorage(StorageLaws):
        def new_storage(self) -> Storage:
            return MyStorage(...)

pytest runs all laws against storages that `new_storage` returns. They need the extra `testing` (pytest and
hypothesis). The storages of Kubewright pass the same laws.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .contract import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyValue,
    RevisionMismatch,
    Storage,
    StorageEvent,
    StorageWatch,
)

_KEYS = ["/a/1", "/a/2", "/a/2/x", "/ab", "/b/é", "/b/\U0001f600"]
_PREFIXES = ["", "/", "/a", "/a/", "/a/2", "/b/", "/nothing"]


class _Step(NamedTuple):
    """One operation of a writer on a key; `stale` uses an older revision than the current one."""

    key: str
    kind: Literal["create", "update", "delete"]
    stale: bool
    pauses: int


class _Done(NamedTuple):
    """A write that was acknowledged."""

    revision: int
    step: _Step
    value: bytes | None
    expected: int


_steps = st.builds(
    _Step,
    key=st.sampled_from(_KEYS),
    kind=st.sampled_from(["create", "create", "update", "update", "delete"]),
    stale=st.sampled_from([False, False, False, True]),
    pauses=st.integers(0, 3),
)
_histories = st.lists(st.lists(_steps, min_size=1, max_size=12), min_size=1, max_size=5)


async def _collect(watch: StorageWatch, until: int) -> list[StorageEvent]:
    """Return the events up to a revision that is known to have been written."""
    events: list[StorageEvent] = []
    async with asyncio.timeout(60):
        while not events or events[-1].revision < until:
            batch = await anext(aiter(watch))
            assert batch, "a batch is never empty"
            events += batch
    return events


async def _work(
    store: Storage, name: int, plan: list[_Step], done: list[_Done], conflicts: list[KeyValue | None]
) -> None:
    for number, step in enumerate(plan):
        value = b"%d.%d" % (name, number)
        before = await store.revision()
        current = await store.get(step.key)
        for _ in range(step.pauses):
            await asyncio.sleep(0)
        expected = 0 if current is None else current.mod_revision
        if step.stale:
            expected = max(0, expected - 1)
        try:
            if step.kind == "create":
                expected = 0
                revision = await store.create(step.key, value)
            elif step.kind == "update":
                revision = await store.update(step.key, value, expected=expected)
            else:
                revision = await store.delete(step.key, expected=expected)
        except KeyExists as error:
            assert step.kind == "create"
            conflicts.append(error.current)
        except RevisionMismatch as error:
            assert step.kind != "create"
            if error.current is not None:
                conflicts.append(error.current)
                assert expected != error.current.mod_revision  # noqa: PT017
        else:
            assert revision > before, "revisions grow"
            if step.kind != "delete":
                seen = await store.get(step.key)
                assert seen is None or seen.mod_revision >= revision, "a writer sees its own write"
            done.append(_Done(revision, step, None if step.kind == "delete" else value, expected))


def _replay(done: list[_Done]) -> tuple[list[StorageEvent], dict[int, dict[str, KeyValue]]]:
    """Return the events that acknowledged writes must have caused, and the state after each of them."""
    state: dict[str, KeyValue] = {}
    events: list[StorageEvent] = []
    states: dict[int, dict[str, KeyValue]] = {}
    for write in done:
        previous = state.get(write.step.key)
        if write.step.kind == "create":
            assert previous is None, "a create succeeded on an existing key"
        else:
            assert previous is not None
            assert previous.mod_revision == write.expected, "a write succeeded with an old revision"
        created = previous.create_revision if previous else write.revision
        if write.value is None:
            del state[write.step.key]
            events.append(StorageEvent("delete", write.step.key, None, previous, created, write.revision))
        else:
            item = KeyValue(write.step.key, write.value, created, write.revision)
            state[write.step.key] = item
            events.append(StorageEvent("put", item.key, item.value, previous, created, write.revision))
        states[write.revision] = dict(state)
    return events, states


def _under(state: dict[str, KeyValue], prefix: str) -> list[KeyValue]:
    return [state[key] for key in sorted(state) if key.startswith(prefix)]


async def _check_history(store: Storage, plans: list[list[_Step]], pick: int, limit: int) -> None:
    start = await store.revision()
    early = store.watch("/", start)
    done: list[_Done] = []
    conflicts: list[KeyValue | None] = []
    await asyncio.gather(*(_work(store, name, plan, done, conflicts) for name, plan in enumerate(plans)))
    if not done:
        return
    done.sort()
    assert len({write.revision for write in done}) == len(done), "no revision is used twice"
    events, states = _replay(done)
    final = await store.revision()
    assert final >= done[-1].revision

    versions = {item for state in states.values() for item in state.values()}
    assert set(conflicts) <= versions, "a conflict contains a value that was never stored"

    assert await _collect(early, done[-1].revision) == events
    assert await early.progress() >= done[-1].revision
    early.close()
    assert [batch async for batch in early] == []

    at = done[pick % len(done)].revision
    for prefix in _PREFIXES:
        assert (await store.list(prefix)).items == _under(states[done[-1].revision], prefix)
        page = await store.list(prefix, revision=at)
        assert (page.items, page.revision, page.more, page.remaining) == (
            _under(states[at], prefix),
            at,
            False,
            0,
        )
        later = [event for event in events if event.revision > at and event.key.startswith(prefix)]
        watch = store.watch(prefix, at)
        if later:
            assert await _collect(watch, later[-1].revision) == later
        watch.close()
        await _check_paging(store, prefix, at, limit, _under(states[at], prefix))

    await store.compact(at)
    await store.compact(at)
    assert (await store.list("/", revision=at)).items == _under(states[at], "/")
    assert (await store.list("/")).items == _under(states[done[-1].revision], "/")
    if at - 1 > start:
        with pytest.raises(Compacted) as caught:
            await store.list("/", revision=at - 1)
        assert caught.value.oldest == at
        with pytest.raises(Compacted) as caught:
            await _collect(store.watch("/", at - 2 or 1), at)
        assert caught.value.oldest == at


async def _check_paging(store: Storage, prefix: str, at: int, limit: int, expected: list[KeyValue]) -> None:
    """Check that the pages at a revision are together the range at that revision."""
    items: list[KeyValue] = []
    start = None
    while True:
        page = await store.list(prefix, start=start, limit=limit, revision=at)
        items += page.items
        assert page.remaining == len(expected) - len(items)
        assert page.more == (page.remaining > 0)
        if not page.more:
            break
        assert len(page.items) == limit
        start = page.items[-1].key + "\0"
    assert items == expected


async def _check_conflicts_return_the_current_value(store: Storage) -> None:
    """A rejected write reports the current value of the key."""
    first = await store.create("/k", b"1")
    with pytest.raises(KeyExists) as exists:
        await store.create("/k", b"2")
    assert exists.value.current == KeyValue("/k", b"1", first, first)
    second = await store.update("/k", b"2", expected=first)
    with pytest.raises(RevisionMismatch) as lost:
        await store.update("/k", b"3", expected=first)
    assert lost.value.current == KeyValue("/k", b"2", first, second)
    with pytest.raises(RevisionMismatch):
        await store.delete("/k", expected=first)
    await store.delete("/k", expected=second)
    for expected in (0, second):
        with pytest.raises(RevisionMismatch) as gone:
            await store.update("/k", b"4", expected=expected)
        assert gone.value.current is None
        with pytest.raises(RevisionMismatch):
            await store.delete("/k", expected=expected)
    assert await store.get("/k") is None


async def _check_exactly_one_of_many_writers_succeeds(store: Storage) -> None:
    """Of concurrent writes with the same precondition, one succeeds."""
    for _ in range(5):
        outcomes = await asyncio.gather(
            *(store.create("/k", b"%d" % n) for n in range(20)), return_exceptions=True
        )
        (winner,) = [outcome for outcome in outcomes if isinstance(outcome, int)]
        current = await store.get("/k")
        assert current is not None
        assert current.mod_revision == winner
        others = [outcome for outcome in outcomes if not isinstance(outcome, int)]
        assert all(isinstance(other, KeyExists) and other.current == current for other in others)
        outcomes = await asyncio.gather(
            *(store.delete("/k", expected=winner) for _ in range(20)), return_exceptions=True
        )
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1


async def _check_future_revisions_are_rejected(store: Storage) -> None:
    """A revision that does not exist yet is rejected."""
    revision = await store.create("/k", b"1")
    with pytest.raises(FutureRevision) as future:
        await store.list("/", revision=revision + 1000)
    assert future.value.current == revision
    with pytest.raises(FutureRevision):
        await store.compact(revision + 1000)


async def _check_later_events(store: Storage) -> None:
    """A watch from revision 0 returns later events."""
    await store.create("/k", b"1")
    watch = store.watch("/", 0)
    await watch.progress()
    revision = await store.create("/l", b"2")
    assert await _collect(watch, revision) == [StorageEvent("put", "/l", b"2", None, revision, revision)]


async def _check_close_ends_watches(store: Storage) -> None:
    await store.open()
    watch = store.watch("/", 0)
    await watch.progress()
    reader = asyncio.ensure_future(anext(aiter(watch)))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await reader


async def _check_cancelled_reader_loses_no_event(store: Storage) -> None:
    """A cancelled read of a watch loses no event."""
    start = await store.revision()
    watch = store.watch("/", start)
    await watch.progress()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(aiter(watch))
    revision = await store.create("/k", b"1")
    assert [event.revision for event in await _collect(watch, revision)] == [revision]


async def _check_large_ranges_are_ordered(store: Storage) -> None:
    """Large ranges are ordered by key, also in pages."""
    keys = [f"/n/{n * 7919 % 3001:05}" for n in range(3001)]
    for at in range(0, len(keys), 500):
        await asyncio.gather(*(store.create(key, b"v") for key in keys[at : at + 500]))
    assert [item.key for item in (await store.list("/n/")).items] == sorted(keys)
    middle = await store.list("/n/", start="/n/01000", limit=10)
    assert [item.key for item in middle.items] == sorted(keys)[1000:1010]
    assert (middle.more, middle.remaining) == (True, 3001 - 1010)


async def _check_values_are_opaque(store: Storage) -> None:
    """Values are bytes of any content and size."""
    for number, value in enumerate([b"", b"\0\xff", bytes(range(256)) * 5000]):
        await store.create(f"/v/{number}", value)
        found = await store.get(f"/v/{number}")
        assert found is not None
        assert found.value == value


async def _check_watch_from_the_revision_of_a_list_misses_no_event(store: Storage, prefix: str) -> None:
    """List and watch from its revision, under concurrent writes."""
    revision = await store.create("/a/key", b"0")
    stop = False

    async def write() -> int:
        number, last = 0, revision
        while not stop:
            number += 1
            last = await store.update("/a/key", b"%d" % number, expected=last)
            await store.create(f"/b/{number}", b"")
            await asyncio.sleep(0)
        return number

    writing = asyncio.create_task(write())
    try:
        for _ in range(30):
            page = await store.list(prefix, limit=1)
            (item,) = page.items
            assert item.mod_revision <= page.revision
            watch = store.watch(prefix, page.revision)
            async with asyncio.timeout(60):
                (event, *_) = await anext(aiter(watch))
            watch.close()
            assert event.value == b"%d" % (int(item.value) + 1)
            assert event.revision > page.revision
    finally:
        stop = True
        await writing


def _has_pending(watch: StorageWatch) -> bool:
    return watch.pending


async def _check_pending_events_are_counted(store: Storage) -> None:
    """A watch reports pending events."""
    watch = store.watch("/a/", await store.revision())
    revision = await store.create("/a/1", b"")
    async with asyncio.timeout(60):
        while await watch.progress() < revision or not _has_pending(watch):  # noqa: ASYNC110 - has no event
            await asyncio.sleep(0.01)
        assert [event.key for event in await anext(aiter(watch))] == ["/a/1"]
    assert not _has_pending(watch)
    assert watch.connected
    watch.close()


def _law(check: Callable[[Storage], Awaitable[None]]) -> Callable[[StorageLaws], None]:
    """Return the test that applies a check to a new storage."""

    def test(self: StorageLaws) -> None:
        self._run(check)

    test.__doc__ = check.__doc__
    return test


class StorageLaws:
    """Tests of the contract; a subclass, whose name begins with `Test`, returns its storages."""

    examples: int = 100
    """Number of random histories of concurrent writers."""

    def new_storage(self) -> Storage:
        """Return a new, empty storage, which is not open."""
        raise NotImplementedError

    def _run(self, check: Callable[[Storage], Awaitable[None]]) -> None:
        async def run() -> None:
            async with self.new_storage() as store:
                await check(store)

        asyncio.run(run())

    def test_concurrent_histories(self) -> None:
        """Concurrent writers see one order of writes: in reads, pages, watches, and after compaction."""

        @settings(max_examples=self.examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(plans=_histories, pick=st.integers(0, 100), limit=st.integers(1, 4))
        def explore(plans: list[list[_Step]], pick: int, limit: int) -> None:
            self._run(lambda store: _check_history(store, plans, pick, limit))

        explore()

    @pytest.mark.parametrize("prefix", ["/a/key", "/a/"], ids=["key", "collection"])
    def test_watch_from_the_revision_of_a_list_misses_no_event(self, prefix: str) -> None:
        """A watch from the revision of a list misses no event, under concurrent writes."""
        self._run(lambda store: _check_watch_from_the_revision_of_a_list_misses_no_event(store, prefix))

    test_conflicts_return_the_current_value = _law(_check_conflicts_return_the_current_value)
    test_exactly_one_of_many_writers_succeeds = _law(_check_exactly_one_of_many_writers_succeeds)
    test_future_revisions_are_rejected = _law(_check_future_revisions_are_rejected)
    test_watch_from_the_current_revision_returns_later_events = _law(_check_later_events)

    def test_close_ends_watches(self) -> None:
        """Closing the storage ends its watches."""
        store = self.new_storage()
        asyncio.run(_check_close_ends_watches(store))

    test_cancelled_reader_loses_no_event = _law(_check_cancelled_reader_loses_no_event)
    test_large_ranges_are_ordered = _law(_check_large_ranges_are_ordered)
    test_values_are_opaque = _law(_check_values_are_opaque)
    test_pending_events_are_counted = _law(_check_pending_events_are_counted)
