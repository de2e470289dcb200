"""`WatchStream`: a watch of the operator, whose events can be delayed, lost or cut off.

A task of the control plane reads the response of the server and delivers its events one by one. Each event
after the initial state is a point of the run. The operator only reads what was delivered, so a killed process
leaves nothing behind on the server.

A client gives up on a watch without data for its idle timeout. Data stops only where a delivery is held, so
that is where the timeout is applied. A timer for each pause, and the bookmarks that a server sends to keep
watches from becoming idle, would take a quarter of the CPU time of runs with long pauses.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec
from multidict import CIMultiDict

from kubewright.api.encoding.codec import ObjectHeader, decoder
from kubewright.client.errors import ConnectionFailed
from kubewright.explore.faults import ERRORS

from .process_target import ProcessTarget

if TYPE_CHECKING:
    from kubewright.client.transport.interface import ResponseStream
    from kubewright.explore.runs.trace import TraceEvent

    from .processes import OperatorProcess

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_header = decoder(ObjectHeader).decode


class WatchStream:
    """A `ResponseStream` of a watch of one process."""

    def __init__(
        self,
        process: OperatorProcess,
        source: ResponseStream,
        *,
        path: str,
        resource: str,
        initial: bool,
        idle_timeout: float | None,
    ) -> None:
        self.status = source.status
        self.headers: CIMultiDict[str] = source.headers
        self.path = path
        self.process = process
        self._cluster = process.cluster
        self._source = source
        self._resource = resource
        self._initial = initial
        self._held: list[bytes] | None = [] if self._cluster.reverses_initial_state else None
        """Initial events that are sent in reverse order at their end."""
        self._idle_timeout = idle_timeout
        self._delivered: deque[bytes | Exception | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reader = self._cluster.loop.create_task(self._read(), context=contextvars.Context())
        process.streams[self] = None

    # Operator side

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._delivered:
            self._waiter = self._cluster.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk = self._delivered[0]
        if isinstance(chunk, bytes):
            self._delivered.popleft()
            return chunk
        self.close()
        if chunk is None:
            raise StopAsyncIteration
        raise chunk

    async def aclose(self) -> None:
        """End the watch."""
        self.close()

    # Control plane side

    def close(self) -> None:
        """Stop reading from the server."""
        self.process.streams.pop(self, None)
        self._reader.cancel()

    def fail(self, error: Exception) -> None:
        """Break the connection."""
        self.close()
        self._put(error)

    def _put(self, chunk: bytes | Exception | None) -> None:
        self._delivered.append(chunk)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _read(self) -> None:
        incomplete = b""
        try:
            async for chunk in self._source:
                *lines, incomplete = (incomplete + chunk).split(b"\n")
                for line in lines:
                    if line:
                        await self._deliver(line + b"\n")
            self._put(None)
        except ConnectionFailed as error:
            self._put(error)
        finally:
            await self._source.aclose()

    async def _deliver(self, line: bytes) -> None:
        cluster, process = self._cluster, self.process
        envelope = _decode_envelope(line)
        if envelope.type in ("BOOKMARK", "ERROR"):
            if self._initial and INITIAL_EVENTS_END.encode() in line:
                self._initial = False
                for each in reversed(self._held or ()):
                    self._put(each)
                cluster.record("initial", process.name, f"{self._resource} synced")
            self._put(line)
            return
        raw = bytes(envelope.object)
        metadata = _decode_header(raw).metadata
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        text = f"{envelope.type} {self._resource} {name}"
        cluster.trace.add_generated(metadata.name or "", metadata.generate_name or "")
        revision = int(metadata.resource_version or 0)
        if self._initial:
            cluster.record("initial", process.name, text, revision=revision)
            if self._held is None:
                self._put(line)
            else:
                self._held.append(line)
            return
        if process.lagging_until > cluster.loop.now:
            await self.hold(process.lagging_until - cluster.loop.now)
        delay = cluster.latency()
        if delay:
            await asyncio.sleep(delay)
        event = cluster.record("delivery", process.name, text, revision=revision, body=raw)
        fault = cluster.fault_at(event)
        if fault is not None:
            await fault.before(_DeliveryTarget(self, event))
            await asyncio.sleep(0)  # where a closed stream ends
        self._put(line)

    async def hold(self, seconds: float) -> None:
        """Wait before a delivery; the client breaks the connection after its idle timeout."""
        if self._idle_timeout is not None and seconds > self._idle_timeout:
            await asyncio.sleep(self._idle_timeout)
            self.fail(ConnectionFailed(f"no data received for {self._idle_timeout:.0f} s"))
            seconds = 0.0
        await asyncio.sleep(seconds)  # where a closed stream ends

    def expire(self) -> None:
        """End the watch with 410 Gone."""
        status = msgspec.json.encode({"type": "ERROR", "object": ERRORS["expired"].body()})
        self._put(status + b"\n")
        self._put(None)
        self.close()


class _DeliveryTarget(ProcessTarget):
    """An event of a watch, before it is delivered."""

    def __init__(self, stream: WatchStream, event: TraceEvent) -> None:
        super().__init__(stream.process, event)
        self._stream = stream

    async def wait(self, seconds: float) -> None:
        """Delay the event, and later ones of the watch."""
        await self._stream.hold(seconds)

    async def break_watch(self) -> None:
        """Break the connection of the watch."""
        self._stream.fail(ConnectionFailed("connection reset by peer"))

    async def expire_watch(self, seconds: float = 0.0) -> None:
        """End the watch; with `seconds`, it cannot be started for them, and then expires."""
        if not seconds:
            self._stream.expire()
            return
        self.process.unwatchable[self._stream.path] = self.cluster.loop.now + seconds
        await self.break_watch()
