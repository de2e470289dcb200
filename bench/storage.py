"""Storage: CPU of a write, a list and a watch event; wall time of durable writes.

The benchmarks of PostgreSQL start a server of their own, which flushes every commit to the disk.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import Benchmark
from bench._postgresql import PostgreSQLServer
from kubewright.storage import History, MemoryStorage, SQLiteStorage, Storage, open_storage

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


class _PostgreSQL:
    """A server that is started by the first benchmark that needs it."""

    def __init__(self) -> None:
        self._server: PostgreSQLServer | None = None
        self._schemas = itertools.count()

    @property
    def server(self) -> PostgreSQLServer:
        if self._server is None:
            self._server = PostgreSQLServer("shared_buffers=256MB", fsync=True)
            atexit.register(self._server.remove)
            self._server.start()
        return self._server

    def new(self) -> Storage:
        """Return an empty storage."""
        return open_storage(self.server.url(f"bench_{next(self._schemas)}"))

    async def server_cpu(self) -> float:
        """CPU of the server for creates by 64 writers."""
        async with self.new() as store:
            start = self.server.cpu()
            await write_concurrently(store, itertools.count())
            return self.server.cpu() - start

    async def latency(self) -> float:
        """Wall time from a create to its event at another server, one after the other."""
        url = self.server.url(f"bench_{next(self._schemas)}")
        async with open_storage(url) as writer, open_storage(url) as reader:
            watch = reader.watch("/registry/", 0)
            await watch.progress()
            start = time.perf_counter()
            for number in range(100):
                await writer.create(f"/registry/pods/default/pod-{number:08}", VALUE)
                assert len(await anext(aiter(watch))) == 1
            return time.perf_counter() - start

    async def listing(self) -> float:
        """CPU of the client for a list of 10,000 keys."""
        async with self.new() as store:
            numbers = itertools.count()
            for _ in range(-(-LISTED // (WRITERS * PER_WRITER))):
                await write_concurrently(store, numbers)
            start = time.process_time()
            page = await store.list("/registry/pods/", limit=LISTED)
            assert len(page.items) == LISTED
            return time.process_time() - start


def benchmarks() -> list[Benchmark]:
    """Benchmarks of the storage back ends."""
    directory = tempfile.TemporaryDirectory(prefix="kubewright-bench-")
    files = itertools.count()
    postgresql = _PostgreSQL()

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
        Benchmark(
            name="postgresql durable create, 64 writers, CPU of the client",
            run=creates(postgresql.new),
            target_us=120,
            operations=count,
            self_timed=True,
        ),
        Benchmark(
            name="postgresql durable create, 64 writers, CPU of the server",
            run=postgresql.server_cpu,
            operations=count,
            self_timed=True,
        ),
        Benchmark(
            name="postgresql durable create, 64 writers, wall clock (500 us = 2,000/s)",
            run=creates(postgresql.new, wall=True),
            target_us=500,
            operations=count,
            self_timed=True,
        ),
        Benchmark(
            name="postgresql create until its event at another server, wall clock",
            run=postgresql.latency,
            target_ms=20,
            operations=100,
            self_timed=True,
        ),
        Benchmark(
            name="postgresql list of 10,000 keys, CPU of the client",
            run=postgresql.listing,
            target_ms=100,
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
