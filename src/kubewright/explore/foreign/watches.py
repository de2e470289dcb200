"""`EventStream`: the events of a watch on their way to a program, and the faults of watches.

Streams are JSON, one event per line. A stream is complete when its connection breaks: `abort`, which the HTTP
server sets, drops the connection without an end of the response.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, decoder
from kubewright.explore.faults import ERRORS

_decode_header = decoder(ObjectHeader).decode
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


@dataclass(frozen=True, slots=True)
class WatchedObject:
    """An event of a watch."""

    type: str
    namespace: str
    name: str
    generate_name: str
    revision: int
    body: bytes
    ends_initial_events: bool = False
    """Whether it is the bookmark after the initial events."""

    @property
    def where(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def decode_event(line: bytes) -> WatchedObject | None:
    """Return the event of a line; `None` for errors and what cannot be decoded."""
    try:
        envelope = _decode_envelope(line)
        if envelope.type == "ERROR":
            return None
        body = bytes(envelope.object)
        metadata = _decode_header(body).metadata
        revision = int(metadata.resource_version or 0)
    except (DecodeError, msgspec.DecodeError, ValueError):
        return None
    ends = envelope.type == "BOOKMARK" and (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return WatchedObject(
        envelope.type,
        metadata.namespace or "",
        metadata.name or "",
        metadata.generate_name or "",
        revision,
        body,
        ends,
    )


def expired_event() -> bytes:
    """Return the event with which a server ends a watch whose resource version is too old."""
    return msgspec.json.encode({"type": "ERROR", "object": ERRORS["expired"].body()}) + b"\n"


Deliver = Callable[["EventStream", bytes], Awaitable[bytes]]
"""Returns the bytes to send for an event; empty ends the watch."""


class EventStream:
    """The stream of one watch; `deliver` is called for each event and decides what is sent."""

    def __init__(
        self,
        source: AsyncIterator[bytes],
        deliver: Deliver,
        *,
        watch: str,
        path: str,
        resource: str,
        process: str,
        is_initial: bool,
        revision: int,
        on_close: Callable[[EventStream], None],
    ) -> None:
        self.abort: Callable[[], object] | None = None
        """Drops the connection; set by the HTTP server."""
        self.watch = watch
        """What is watched, with its selectors."""
        self.path = path
        self.resource = resource
        self.process = process
        self.is_initial = is_initial
        """Whether the initial events are being sent, which are not deliveries."""
        self.revision = revision
        """Revision of the store when the watch was started."""
        self._source = aiter(source)
        self._watcher = source
        self._deliver = deliver
        self._on_close = on_close
        self._pending: list[bytes] = []
        self._incomplete = b""
        self._has_ended = False

    @property
    def sending_initial_events(self) -> bool:
        """Whether the source sends its initial events."""
        return bool(getattr(self._watcher, "sending_initial_events", False))

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._has_ended:
            while self._pending:
                sent = await self._deliver(self, self._pending.pop(0))
                if sent:
                    return sent
                self._has_ended = True
                raise StopAsyncIteration
            chunk = await anext(self._source)
            *self._pending, self._incomplete = (self._incomplete + chunk).split(b"\n")
            self._pending = [line for line in self._pending if line]
        raise StopAsyncIteration

    def end(self) -> None:
        """End after the next event."""
        self._has_ended = True

    def drop(self) -> None:
        """Break the connection."""
        self._has_ended = True
        if self.abort is not None:
            self.abort()

    async def aclose(self) -> None:
        """Release the source."""
        self._on_close(self)
        close = getattr(self._watcher, "aclose", None)
        if close is not None:
            await close()
