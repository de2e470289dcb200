"""Storage metrics under the names of kube-apiserver.

Every resource uses an `InstrumentedStorage`, which records the duration of each call. Samples are formatted
when `/metrics` is read, not on the request path. Names begin with `etcd_` where those of kube-apiserver do,
whatever the storage, so that existing dashboards and alerts work.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.histogram import Histogram
from kubewright.storage.contract import KeyValue, ListSelection, Page, Storage, StorageError, StorageWatch

if TYPE_CHECKING:
    from kubewright.apiserver.rest.store import ResourceStore

ResultT = TypeVar("ResultT")
BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)


class LatencyHistogram(Histogram):
    """Latency histogram of one storage operation."""

    __slots__ = ("errors",)

    def __init__(self) -> None:
        super().__init__(BUCKETS)
        self.errors = 0

    async def time(self, call: Awaitable[ResultT]) -> ResultT:
        """Wait for a call, and record its duration and whether the storage failed."""
        started = perf_counter()
        try:
            return await call
        except StorageError:
            self.errors += 1
            raise
        finally:
            self.observe(perf_counter() - started)


class InstrumentedStorage(Storage):
    """Storage of one resource that records the latency of every call."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.shares_values = storage.shares_values
        self.rewrites = storage.rewrites
        self.gets, self.lists = LatencyHistogram(), LatencyHistogram()
        self.creates, self.updates, self.deletes = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
        self.fetched = 0

    def operations(self) -> Iterator[tuple[str, LatencyHistogram]]:
        """Return the operations that were called."""
        named = (
            ("get", self.gets),
            ("list", self.lists),
            ("create", self.creates),
            ("update", self.updates),
            ("delete", self.deletes),
        )
        return ((name, times) for name, times in named if times.count)

    async def open(self) -> None:
        await self.storage.open()

    async def close(self) -> None:
        await self.storage.close()

    def is_stale(self, item: KeyValue) -> bool:
        return self.storage.is_stale(item)

    async def revision(self) -> int:
        return await self.storage.revision()

    async def get(self, key: str) -> KeyValue | None:
        return await self.gets.time(self.storage.get(key))

    async def refresh(
        self,
        prefix: str,
        *,
        start: str | None = None,
        limit: int = 0,
        selection: ListSelection | None = None,
    ) -> int:
        return await self.storage.refresh(prefix, start=start, limit=limit, selection=selection)

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        page = await self.lists.time(self.storage.list(prefix, start=start, limit=limit, revision=revision))
        self.fetched += len(page.items)
        return page

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        return await self.creates.time(self.storage.create(key, value, ttl=ttl))

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        return await self.updates.time(self.storage.update(key, value, expected=expected, ttl=ttl))

    async def delete(self, key: str, *, expected: int) -> int:
        return await self.deletes.time(self.storage.delete(key, expected=expected))

    def watch(self, prefix: str, revision: int) -> StorageWatch:
        return self.storage.watch(prefix, revision)

    async def compact(self, revision: int) -> None:
        await self.storage.compact(revision)

    async def size(self) -> int | None:
        return await self.storage.size()


class StorageMetrics(Collector):
    """Collector of the counts of all stores of a server."""

    def __init__(self) -> None:
        self._stores: list[ResourceStore] = []
        self._objects: list[int] = []
        self._size: int | None = None

    async def refresh(self, storage: Storage, stores: Iterable[ResourceStore]) -> None:
        """Count the stored objects; -1 for a resource that cannot be counted."""
        self._stores = list(stores)
        self._objects = await asyncio.gather(*(_count(storage, store.prefix) for store in self._stores))
        try:
            self._size = await storage.size()
        except StorageError:
            self._size = None

    def collect(self) -> Iterator[Metric]:
        """Return the samples."""
        calls = ("operation", "group", "resource")
        resource = ("group", "resource")
        durations = HistogramMetricFamily(
            "etcd_request_duration_seconds",
            "Seconds that storage took, by operation and resource.",
            labels=calls,
        )
        requests = CounterMetricFamily("etcd_requests", "Calls to storage.", labels=calls)
        failures = CounterMetricFamily(
            "etcd_request_errors", "Calls that storage could not do.", labels=calls
        )
        lists = CounterMetricFamily("apiserver_storage_list", "Lists read from storage.", labels=resource)
        fetched = CounterMetricFamily(
            "apiserver_storage_list_fetched_objects", "Objects that lists read from storage.", labels=resource
        )
        received = CounterMetricFamily(
            "apiserver_storage_events_received", "Changes that storage reported.", labels=resource
        )
        sent = CounterMetricFamily(
            "apiserver_watch_events", "Events sent to watches.", labels=("group", "version", "resource")
        )
        terminated = CounterMetricFamily(
            "apiserver_terminated_watchers", "Watches ended because they did not read.", labels=resource
        )
        undecodable = CounterMetricFamily(
            "apiserver_storage_decode_errors", "Stored values that could not be decoded.", labels=resource
        )
        present = GaugeMetricFamily(
            "kubewright_undecodable_objects", "Stored objects that cannot be decoded now.", labels=resource
        )
        for store in self._stores:
            labels = (store.resource.group, store.resource.plural)
            for operation, times in store.storage.operations():
                named = (operation, *labels)
                durations.add_metric(named, *times.collect())
                requests.add_metric(named, times.count)
                if times.errors:
                    failures.add_metric(named, times.errors)
            lists.add_metric(labels, store.storage.lists.count)
            fetched.add_metric(labels, store.storage.fetched)
            received.add_metric(labels, store.watch_cache.received)
            terminated.add_metric(labels, store.watch_cache.dropped)
            if store.objects.errors:
                undecodable.add_metric(labels, store.objects.errors)
                present.add_metric(labels, len(store.objects.undecodable))
            for version, count in store.watch_cache.sent.items():
                sent.add_metric((labels[0], version, labels[1]), count)
        yield from (durations, requests, failures, lists, fetched, received, sent, terminated)
        yield from (undecodable, present)
        about = "Objects in storage; -1 if they could not be counted."
        objects = GaugeMetricFamily("apiserver_resource_objects", about, labels=resource)
        older = GaugeMetricFamily("apiserver_storage_objects", about, labels=("resource",))
        for store, count in zip(self._stores, self._objects, strict=True):
            objects.add_metric((store.resource.group, store.resource.plural), count)
            older.add_metric((str(store.resource.group_resource),), count)
        yield from (objects, older)
        if self._size is not None:
            size = GaugeMetricFamily(
                "apiserver_storage_size_bytes",
                "Bytes that the store's file takes.",
                None,
                ("storage_cluster_id",),
            )
            size.add_metric(("etcd-0",), self._size)
            yield size


async def _count(storage: Storage, prefix: str) -> int:
    try:
        page = await storage.list(prefix, limit=1)
    except StorageError:
        return -1
    return len(page.items) + page.remaining
