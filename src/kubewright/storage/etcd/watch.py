"""A watch on etcd that survives its connection.

One task reads the stream and queues events; it stops reading while the queue is full. When the stream breaks,
it starts again after the last received revision, at another member if there is one: no event is lost or
repeated. Only compaction of the history that it needs ends it.
"""

# ruff: noqa: D102 (documented in the contract)

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from kubewright.storage.contract import Compacted, KeyValue, StorageError, StorageEvent, StorageWatch

from .connection import EtcdConnection, backoff

QUEUE_LIMIT = 10_000
"""Maximum number of queued events; the stream is not read above it."""

_PROGRESS_INTERVAL = 0.1
"""Seconds between progress requests: etcd ignores them while it has events to send."""


class _TokenExpired(Exception):
    """etcd ended the stream because the token of the user has expired."""


class EtcdWatch(StorageWatch):
    """Watch of the keys in [low, high) after `revision`; `None`: from now on."""

    def __init__(
        self,
        connection: EtcdConnection,
        low: bytes,
        high: bytes,
        revision: int | None,
        decode: Callable[[Any], KeyValue],
        *,
        progress_requests: bool,
    ) -> None:
        self._connection = connection
        self._range = (low, high)
        self._position = revision
        self._decode = decode
        self._progress_requests = progress_requests
        self._progress_count = 0
        self._queue: list[StorageEvent] = []
        self._error: Exception | None = None
        self._ended = False
        self._call: Any = None
        self._changed = asyncio.Condition()
        self._created = False
        self._has_new_token = False
        """Whether a token was requested since the last successful start of the stream."""
        self.connected = False
        self.task = asyncio.create_task(self._run(), name="etcd watch")

    def __aiter__(self) -> AsyncIterator[list[StorageEvent]]:
        return self

    async def __anext__(self) -> list[StorageEvent]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._queue or self._ended)
            if self._queue:
                batch, self._queue = self._queue, []
                self._changed.notify_all()
                return batch
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    async def progress(self) -> int:
        async with self._changed:
            await self._changed.wait_for(lambda: self._created or self._ended)
            seen = self._progress_count
        if self._progress_requests:
            while self._progress_count == seen and not self._ended:
                call = self._call
                if call is not None:
                    try:
                        await call.write(
                            self._connection.rpc.WatchRequest(
                                progress_request=self._connection.rpc.WatchProgressRequest()
                            )
                        )
                    except (self._connection.rpc.AioRpcError, asyncio.InvalidStateError):
                        pass  # The stream broke; retried on the next one.
                try:
                    async with asyncio.timeout(_PROGRESS_INTERVAL), self._changed:
                        await self._changed.wait_for(lambda: self._progress_count != seen or self._ended)
                except TimeoutError:
                    pass
        if self._error is not None:
            raise self._error
        return self._position or 0

    @property
    def pending(self) -> bool:
        return bool(self._queue)

    def close(self) -> None:
        self._ended = True
        self._queue = []
        self.task.cancel()

    async def _run(self) -> None:
        failures = 0
        rpc = self._connection.rpc
        try:
            while True:
                before = self._position
                member = self._connection.member
                try:
                    await self._read_stream()
                except rpc.AioRpcError as error:
                    codes = rpc.StatusCode
                    if self._may_be_expired(error.details() or ""):
                        await self._login()
                    elif error.code() in (codes.PERMISSION_DENIED, codes.UNAUTHENTICATED):
                        raise self._connection.explain(error) from error
                except _TokenExpired:
                    await self._login()
                failures = 0 if self._position != before else failures + 1
                self._connection.switch_from(member)
                await asyncio.sleep(backoff(failures))
        except Exception as error:
            self._error = error
        finally:
            self._ended = True
            await asyncio.shield(self._notify())

    def _may_be_expired(self, reason: str) -> bool:
        """Whether a new token may help; not if the last one was new."""
        return not self._has_new_token and self._connection.token_expired(reason)

    async def _login(self) -> None:
        """Request a new token; without a response the next attempt follows after the delay."""
        with suppress(StorageError):
            await self._connection.login()
            self._has_new_token = True

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _read_stream(self) -> None:
        """Read one stream to its end."""
        rpc = self._connection.rpc
        call = self._connection.member.watch.Watch(metadata=self._connection.metadata or None)
        try:
            low, high = self._range
            create = rpc.WatchCreateRequest(
                key=low,
                range_end=high,
                start_revision=0 if self._position is None else self._position + 1,
                prev_kv=True,
                progress_notify=True,
            )
            await call.write(rpc.WatchRequest(create_request=create))
            while True:
                response = await call.read()
                if not isinstance(response, rpc.WatchResponse):
                    return
                await self._handle_response(call, response)
        finally:
            self._call = None
            self.set_connected(False)
            call.cancel()

    async def _handle_response(self, call: Any, response: Any) -> None:
        if response.compact_revision:
            raise Compacted(self._position or 0, response.compact_revision)
        if response.canceled and self._may_be_expired(response.cancel_reason):
            raise _TokenExpired
        if response.canceled:
            raise StorageError(f"etcd at {self._connection.where} ended the watch: {response.cancel_reason}")
        async with self._changed:
            if response.created:
                self._call = call
                self._created = True
                self._has_new_token = False
                if self._position is None:
                    self._position = response.header.revision
                self.set_connected(True)
            elif response.events:
                self._queue.extend(map(self._event, response.events))
                self._position = response.events[-1].kv.mod_revision
            else:
                self._position = max(self._position or 0, response.header.revision)
                self._progress_count += 1
            self._changed.notify_all()
            await self._changed.wait_for(lambda: len(self._queue) < QUEUE_LIMIT)

    def _event(self, event: Any) -> StorageEvent:
        changed = self._decode(event.kv)
        previous = self._decode(event.prev_kv) if event.HasField("prev_kv") else None
        if event.type == event.DELETE:
            created = 0 if previous is None else previous.create_revision
            return StorageEvent("delete", changed.key, None, previous, created, changed.mod_revision)
        return StorageEvent(
            "put", changed.key, changed.value, previous, changed.create_revision, changed.mod_revision
        )
