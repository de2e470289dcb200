"""Storage: CPU of a write, a list and a watch event; wall time of durable writes."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import Benchmark
from kubewright.storage import History, MemoryStorage, SQLiteStorage, Storage

VALUE = bytes(range(256)) * 9
"""2.3 KB, the size of a typical object."""

WRITERS = 64
PER_WRITER = 40
LISTED = 10_000
WATCHES = 100


async def write_concurrently(store: Storage, numbers: itertools.count[int]) -> None:
    async def writer() -> None:
        for _ in range(PER_WRITER):
            await store.create(f"/registry/pods/default/pod-{next(numbers):08}", VALUE)

    await asyncio.gather(*(writer() for _ in range(WRITERS)))


def creates(make: Callable[[], Storage], *, wall: bool = False) -> Callable[[], Awaitable[float]]:
    """Creates by 64 concurrent writers; opening and closing the storage is not measured."""

    async def run() -> float:
        clock = time.perf_counter if wall else time.process_time
        async with make() as store:
            start = clock()
            await write_concurrently(store, itertools.count())
            return clock() - start

    return run


def ranges(limit: int, revision: int) -> Callable[[], Awaitable[None]]:
    """Lists of a store that is filled at the first call."""
    stores: list[Storage] = []

    async def run() -> None:
        if not stores:
            store = MemoryStorage()
            await store.open()
            for number in range(LISTED):
                await store.create(f"/registry/pods/default/pod-{number:08}", VALUE)
            stores.append(store)
        page = await stores[0].list("/registry/pods/", limit=limit, revision=revision)
        assert len(page.items) == (limit or LISTED)

    return run


async def fan_out() -> float:
    """One writer, `WATCHES` watches of its prefix and as many of other prefixes."""
    events = 200
    async with MemoryStorage(history=History(max_events=10_000)) as store:
        watches = [store.watch("/registry/pods/", 0) for _ in range(WATCHES)]
        for number in range(WATCHES):
            store.watch(f"/registry/kind-{number}/", 0)
        start = time.process_time()
        for number in range(events):
            await store.create(f"/registry/pods/default/pod-{number:08}", VALUE)
        for watch in watches:
            assert len(await anext(aiter(watch))) == events
        return time.process_time() - start


async def idle_watches() -> float:
    """Additional cost of a write with 10,000 watches of other prefixes."""
    events = 1000
    async with MemoryStorage() as store:
        for number in range(10_000):
            store.watch(f"/registry/pods/namespace-{number}/", 0)
        start = time.process_time()
        for number in range(events):
            await store.create(f"/registry/pods/default/pod-{number:08}", VALUE)
        return time.process_time() - start


def benchmarks() -> list[Benchmark]:
    """Benchmarks of the storage back ends."""
    directory = tempfile.TemporaryDirectory(prefix="kubewright-bench-")
    files = itertools.count()

    def on_disk() -> Storage:
        # The closure keeps the directory until the benchmarks are done.
        return SQLiteStorage(Path(directory.name) / f"{next(files)}.db")

    count = WRITERS * PER_WRITER
    return [
        Benchmark(
            name="memory create, 2.3 KB",
            run=creates(MemoryStorage),
            target_us=15,
            operations=count,
            self_timed=True,
        ),
        Benchmark(
            name="sqlite durable create, 64 writers, CPU",
            run=creates(on_disk),
            target_us=60,
            operations=count,
            self_timed=True,
        ),
        Benchmark(
            name="sqlite durable create, 64 writers, wall clock (200 us = 5,000/s)",
            run=creates(on_disk, wall=True),
            target_us=200,
            operations=count,
            self_timed=True,
        ),
        Benchmark(name="list 10,000 keys", run=ranges(0, 0), target_ms=5),
        Benchmark(
            name="page of 500 at a revision 5,000 writes ago",
            run=ranges(500, LISTED // 2),
            target_ms=5,
        ),
        Benchmark(
            name="event to one of 100 watches",
            run=fan_out,
            target_us=1,
            operations=200 * WATCHES,
            self_timed=True,
        ),
        Benchmark(
            name="write beside 10,000 idle watches",
            run=idle_watches,
            target_us=15,
            operations=1000,
            self_timed=True,
        ),
    ]
