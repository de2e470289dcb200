"""Storage in etcd, for several API servers on one state.

Every read is a linearizable read of etcd, every write one transaction that compares the revision of the key;
only connections are held here. Revisions are those of etcd, shared by everything in it. Keys have a prefix,
so that several storages can use one etcd.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any, Self, Unpack

from kubewright.background import run_forever
from kubewright.storage.contract import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    RevisionMismatch,
    Storage,
    StorageError,
)
from kubewright.storage.url import EtcdKeywords

from .connection import EtcdConnection, EtcdOptions, RevisionUnreadable
from .watch import EtcdWatch

_PAGE = 5000
"""Keys per response: a list without limit consists of pages at one revision."""

_LEASE_KEYS = 1000
"""Keys that share a lease."""


@dataclass(slots=True)
class _Lease:
    id: int
    reusable_until: float
    keys: int


class EtcdStorage(Storage):
    """Storage in etcd. `EtcdOptions` documents the options of the URL."""

    manages_compaction = True
    is_shared = True

    def __init__(self, options: EtcdOptions) -> None:
        self.options = options
        self._prefix = options.prefix.encode()
        self._connection = EtcdConnection(options)
        self._leases: dict[int, _Lease] = {}
        self._lease_lock = asyncio.Lock()
        self._watches: set[EtcdWatch] = set()
        self._progress_requests = False
        self._compactor: asyncio.Task[None] | None = None

    @classmethod
    def from_url(cls, url: str, **options: Unpack[EtcdKeywords]) -> Self:
        """Return the storage of an `etcd:` URL; keyword options override those of the URL."""
        try:
            return cls(replace(EtcdOptions.parse(url), **options))
        except TypeError as error:
            raise StorageError(f"etcd storage: {error}") from error

    async def open(self) -> None:
        try:
            await self._connection.open()
            await self.revision()
            self._progress_requests = await self._version() >= (3, 5, 13)
        except BaseException:
            await self._connection.close()
            raise
        if self.options.compact_every > 0:
            self._compactor = run_forever(self._compact_regularly, name="etcd compaction")

    async def close(self) -> None:
        tasks = [watch.task for watch in self._watches]
        for watch in list(self._watches):
            watch.close()
        if self._compactor is not None:
            self._compactor.cancel()
            tasks.append(self._compactor)
            self._compactor = None
        if tasks:
            await asyncio.wait(tasks)
        await self._connection.close()

    async def _version(self) -> tuple[int, ...]:
        """Return the version of etcd: before 3.5.13 the response to a progress request can overtake
        events."""
        try:
            status = await self._status()
        except StorageError:
            return (0,)  # The user is not allowed to read the status.
        return tuple(int(part) for part in status.version.split("-")[0].split(".") if part.isdecimal())

    async def _status(self) -> Any:
        return await self._connection.call(
            "maintenance", "Status", self._connection.rpc.StatusRequest(), repeat=True
        )

    async def size(self) -> int:
        size: int = (await self._status()).dbSize
        return size

    def _key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def _span(self, prefix: str) -> tuple[bytes, bytes]:
        """Return the etcd range of a prefix. Keys are paths: all of them start with a slash."""
        low = self._key(prefix or "/")
        for index in range(len(low) - 1, -1, -1):
            if low[index] != 0xFF:
                return low, low[:index] + bytes((low[index] + 1,))
        raise ValueError(f"{prefix!r} has no end")

    def _decode(self, item: Any) -> KeyValue:
        key = item.key[len(self._prefix) :].decode()
        return KeyValue(key, item.value, item.create_revision, item.mod_revision)

    async def _range(self, **request: Any) -> Any:
        return await self._connection.call(
            "kv", "Range", self._connection.rpc.RangeRequest(**request), repeat=True
        )

    async def revision(self) -> int:
        response = await self._range(key=self._key("/"), count_only=True)
        revision: int = response.header.revision
        return revision

    async def get(self, key: str) -> KeyValue | None:
        response = await self._range(key=self._key(key))
        return self._decode(response.kvs[0]) if response.kvs else None

    async def list(self, prefix: str, *, start: str | None = None, limit: int = 0, revision: int = 0) -> Page:
        low, high = self._span(prefix)
        if start is not None:
            low = max(low, self._key(start))
        items: list[KeyValue] = []
        while True:
            wanted = min(_PAGE, limit - len(items)) if limit else _PAGE
            try:
                response = await self._range(key=low, range_end=high, limit=wanted, revision=revision)
            except RevisionUnreadable as error:
                raise await self._unreadable(revision) from error
            # Later pages are read at the revision of the first.
            revision = revision or response.header.revision
            items.extend(map(self._decode, response.kvs))
            left = response.count - len(response.kvs)
            if not response.more or (limit and len(items) >= limit):
                return Page(items, revision, left > 0, left)
            low = response.kvs[-1].key + b"\0"

    async def _unreadable(self, revision: int) -> Exception:
        current = await self.revision()
        if revision > current:
            return FutureRevision(revision, current)
        return Compacted(revision, await self._oldest())

    async def _oldest(self) -> int:
        """Return the compacted revision, which only a watch that starts too early receives."""
        low, high = self._span("")
        watch = EtcdWatch(self._connection, low, high, 0, self._decode, progress_requests=False)
        try:
            async for _ in watch:
                break
        except Compacted as error:
            return error.oldest
        finally:
            watch.close()
        return 0

    async def create(self, key: str, value: bytes, *, ttl: int | None = None) -> int:
        current, revision = await self._swap(key, 0, value, ttl)
        if revision is not None:
            return revision
        if current is None:  # pragma: no cover - the key was there when the comparison failed
            raise StorageError(f"etcd did not create {key}, which does not exist")
        raise KeyExists(current)

    async def update(self, key: str, value: bytes, *, expected: int, ttl: int | None = None) -> int:
        if expected <= 0:  # To etcd, 0 means that the key must not exist.
            raise RevisionMismatch(key, await self.get(key))
        current, revision = await self._swap(key, expected, value, ttl)
        if revision is None:
            raise RevisionMismatch(key, current)
        return revision

    async def delete(self, key: str, *, expected: int) -> int:
        if expected <= 0:
            raise RevisionMismatch(key, await self.get(key))
        rpc = self._connection.rpc
        operation = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._key(key)))
        current, revision = await self._if_unchanged(key, expected, operation)
        if revision is None:
            raise RevisionMismatch(key, current)
        return revision

    async def _swap(
        self, key: str, expected: int, value: bytes, ttl: int | None
    ) -> tuple[KeyValue | None, int | None]:
        rpc = self._connection.rpc
        for attempt in (1, 2):
            lease = 0 if ttl is None else await self._lease(ttl)
            put = rpc.RequestOp(request_put=rpc.PutRequest(key=self._key(key), value=value, lease=lease))
            try:
                return await self._if_unchanged(key, expected, put)
            except StorageError as error:
                if ttl is None or attempt == 2 or "lease not found" not in str(error):
                    raise
                self._leases.pop(ttl, None)  # It expired meanwhile: use a new one.
        raise AssertionError("unreachable")

    async def _if_unchanged(
        self, key: str, expected: int, operation: Any
    ) -> tuple[KeyValue | None, int | None]:
        """Run `operation` if the key is at `expected`; return the current value or the new revision."""
        rpc = self._connection.rpc
        name = self._key(key)
        request = rpc.TxnRequest(
            compare=[
                rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=name, mod_revision=expected)
            ],
            success=[operation],
            failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=name))],
        )
        response = await self._connection.call("kv", "Txn", request, repeat=False)
        if response.succeeded:
            return None, response.header.revision
        found = response.responses[0].response_range.kvs
        return (self._decode(found[0]) if found else None), None

    async def _lease(self, ttl: int) -> int:
        """Return a lease of at least `ttl` seconds; keys written at about the same time share one."""
        async with self._lease_lock:
            lease = self._leases.get(ttl)
            if lease is None or lease.keys >= _LEASE_KEYS or time.monotonic() > lease.reusable_until:
                slack = min(60, ttl // 20)
                started = time.monotonic()
                response = await self._connection.call(
                    "lease",
                    "LeaseGrant",
                    self._connection.rpc.LeaseGrantRequest(TTL=ttl + slack),
                    repeat=True,
                )
                lease = self._leases[ttl] = _Lease(response.ID, started + slack, 0)
            lease.keys += 1
            return lease.id

    def watch(self, prefix: str, revision: int) -> EtcdWatch:
        low, high = self._span(prefix)
        watch = EtcdWatch(
            self._connection,
            low,
            high,
            revision or None,
            self._decode,
            progress_requests=self._progress_requests,
        )
        self._watches.add(watch)
        watch.task.add_done_callback(lambda _: self._watches.discard(watch))
        return watch

    async def compact(self, revision: int) -> None:
        request = self._connection.rpc.CompactionRequest(revision=revision)
        try:
            await self._connection.call("kv", "Compact", request, repeat=True)
        except RevisionUnreadable as error:
            current = await self.revision()
            if revision > current:
                raise FutureRevision(revision, current) from error

    async def _compact_regularly(self) -> None:
        """Compact to the revision of one period ago.

        Every server tries; a key that counts the compactions elects one of them per period.
        """
        rpc = self._connection.rpc
        name = self._prefix + (b"\0" if self._prefix else b"") + b"compact_rev_key"
        count = revision = 0
        while True:
            request = rpc.TxnRequest(
                compare=[
                    rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.VERSION, key=name, version=count)
                ],
                success=[rpc.RequestOp(request_put=rpc.PutRequest(key=name, value=str(revision).encode()))],
                failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=name))],
            )
            try:
                response = await self._connection.call("kv", "Txn", request, repeat=False)
                if response.succeeded:
                    count += 1
                    if revision:
                        await self.compact(revision)
                else:
                    found = response.responses[0].response_range.kvs
                    count = found[0].version if found else 0
                revision = response.header.revision
            except (StorageError, FutureRevision):
                pass  # Etcd is unreachable or the user is not allowed to compact; retried in the next period.
            await asyncio.sleep(self.options.compact_every)
