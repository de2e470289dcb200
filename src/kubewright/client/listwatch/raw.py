"""Lists and watches whose objects stay bytes; the cache uses them.

Each item or event is parsed once: the envelope and the `ObjectHeader` (apiVersion, kind, metadata) are
decoded, the object stays the bytes of the response. Decode the rest when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from kubewright.api.encoding.codec import DecodeError, ObjectHeader, RawList, decoder
from kubewright.api.errors import APIError
from kubewright.api.meta import revision_number
from kubewright.client.errors import ConnectionFailed

if TYPE_CHECKING:
    from kubewright.client.transport.interface import ResponseStream

MAX_EVENT = 64 << 20
"""Maximum size of one event in bytes; a stream that sends more without a line end is not a watch."""


class RawPage(NamedTuple):
    """A list, or one page of a list."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_: str
    """The token of the next page; empty on the last page."""
    api_version: str
    """apiVersion and kind of the items; some servers omit them in the items."""
    kind: str
    remaining: int | None = None

    def events(self) -> Iterator[RawEvent]:
        """Yield the items as events of a watch that starts with them."""
        for item in self.items:
            raw = bytes(item)
            yield RawEvent("ADDED", raw, _decode_header(raw))


class RawEvent(NamedTuple):
    """One event of a watch; `raw` is the object as received."""

    type: str
    raw: bytes
    header: ObjectHeader

    @property
    def namespace(self) -> str:
        """The namespace; empty for cluster-scoped objects."""
        return self.header.metadata.namespace or ""

    @property
    def name(self) -> str:
        """The name."""
        return self.header.metadata.name or ""

    @property
    def resource_version(self) -> str:
        """The resource version."""
        return self.header.metadata.resource_version or ""

    @property
    def revision(self) -> int:
        """The resource version as a number; 0 if it is not decimal and so cannot be ordered."""
        return revision_number(self.header.metadata.resource_version)

    @property
    def error(self) -> None:
        """Nothing: an event that cannot be decoded ends the watch."""


class _Receiver(Protocol):
    def receive(self, batch: Sequence[RawEvent]) -> None: ...


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_page = decoder(RawList).decode
_decode_envelopes = msgspec.json.Decoder(_Envelope).decode_lines
_decode_header = decoder(ObjectHeader).decode


def read_page(body: bytes) -> RawPage:
    """Split the body of a list response into its items without decoding them."""
    try:
        page = _decode_page(body)
    except msgspec.DecodeError as error:
        raise DecodeError(f"cannot decode the list: {error}") from error
    meta = page.metadata
    return RawPage(
        page.items or [],
        meta.resource_version or "",
        meta.continue_ or "",
        page.api_version,
        page.kind.removesuffix("List"),
        meta.remaining_item_count,
    )


class RawWatch:
    """The events of one watch request, in order. Close it, or use it in `async with`.

    The iteration ends when the server ends the request, which it does every few minutes. It raises
    `ConnectionFailed` when the connection breaks or times out, and the `APIError` of an ERROR event
    (`Expired`: list again). `resource_version` is where the next watch starts.
    """

    def __init__(self, stream: ResponseStream, resource_version: str = "") -> None:
        self._stream = stream
        self.resource_version = resource_version

    def __aiter__(self) -> AsyncIterator[RawEvent]:
        return self._events()

    async def batches(self) -> AsyncIterator[list[RawEvent]]:
        """Yield lists of the events that arrived together."""
        incomplete = bytearray()
        async for chunk in self._stream:
            end = chunk.rfind(b"\n")
            if end < 0:
                incomplete += chunk
                if len(incomplete) > MAX_EVENT:
                    raise ConnectionFailed(f"the server sent an event longer than {MAX_EVENT >> 20} MiB")
                continue
            lines = bytes(incomplete + chunk[:end]) if incomplete else chunk[:end]
            incomplete = bytearray(chunk[end + 1 :])
            events, error = self._decode(lines)
            if events:
                self.resource_version = events[-1].resource_version or self.resource_version
                yield events
            if error is not None:
                raise error
        if incomplete.strip():
            raise ConnectionFailed("the connection was closed within an event")

    async def _events(self) -> AsyncIterator[RawEvent]:
        async for batch in self.batches():
            for event in batch:
                # A caller that stops within a batch continues after this event.
                self.resource_version = event.resource_version or self.resource_version
                yield event

    def _decode(self, lines: bytes) -> tuple[list[RawEvent], APIError | None]:
        """Return the events before an ERROR event, and its error."""
        events: list[RawEvent] = []
        try:
            for envelope in _decode_envelopes(lines):
                raw = bytes(envelope.object)
                if envelope.type == "ERROR":
                    return events, _error(raw)
                events.append(RawEvent(envelope.type, raw, _decode_header(raw)))
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"cannot decode a watch event: {error}") from error
        return events, None

    async def deliver(self, receiver: _Receiver) -> None:
        """Call `receiver.receive` with the events that arrived together, until the watch ends."""
        async for batch in self.batches():
            receiver.receive(batch)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def __aenter__(self) -> RawWatch:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.shield(self.aclose())


def _error(raw: bytes) -> APIError:
    status: dict[str, Any] = msgspec.json.decode(raw)
    return APIError.from_status(status)
