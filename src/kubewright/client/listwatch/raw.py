"""Lists and watches as bytes, for those who keep bytes: the cache stands on this.

Each item or event is touched once: the envelope is read, the object stays the bytes that came over the wire,
and `ObjectHeader` (apiVersion, kind, metadata) is decoded beside it. Decode the rest when it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubewright.api.codec import DecodeError, ObjectHeader, RawList, decoder
from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed

if TYPE_CHECKING:
    from kubewright.client.transport.interface import ResponseStream

MAX_EVENT = 64 << 20
"""Bytes of one event; a stream that sends more without an end of line is not a watch."""


class RawPage(NamedTuple):
    """A list, or one page of it."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_: str
    """The token of the next page; empty on the last."""
    api_version: str
    """Items do not repeat apiVersion and kind on every server: these are the list's."""
    kind: str
    remaining: int | None = None


class RawEvent(NamedTuple):
    """One event of a watch. `raw` is the object as the server sent it."""

    type: str
    raw: bytes
    header: ObjectHeader


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_read_page = decoder(RawList).decode
_read_envelopes = msgspec.json.Decoder(_Envelope).decode_lines
_read_header = decoder(ObjectHeader).decode


def read_page(body: bytes) -> RawPage:
    """Split the body of a list into its items without reading them."""
    try:
        page = _read_page(body)
    except msgspec.DecodeError as error:
        raise DecodeError(f"cannot read the list: {error}") from error
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
    """The events of one watch request, in order; close it, or leave its `async with`.

    Ends when the server ends the request, which it does every few minutes. Raises `ConnectionFailed` when the
    connection breaks or falls silent, and the `APIError` that the server sends instead of an event
    (`Expired`: list again). `resource_version` is where to go on from.
    """

    def __init__(self, stream: ResponseStream, resource_version: str = "") -> None:
        self._stream = stream
        self.resource_version = resource_version

    def __aiter__(self) -> AsyncIterator[RawEvent]:
        return self._events()

    async def batches(self) -> AsyncIterator[list[RawEvent]]:
        """The same events, those that arrived together in one list."""
        rest = bytearray()
        async for chunk in self._stream:
            end = chunk.rfind(b"\n")
            if end < 0:
                rest += chunk
                if len(rest) > MAX_EVENT:
                    raise ConnectionFailed("the server sent an event that does not end")
                continue
            whole = bytes(rest + chunk[:end]) if rest else chunk[:end]
            rest = bytearray(chunk[end + 1 :])
            events, error = self._read(whole)
            if events:
                self.resource_version = _version(events[-1]) or self.resource_version
                yield events
            if error is not None:
                raise error
        if rest.strip():
            raise ConnectionFailed("the connection ended in the middle of an event")

    async def _events(self) -> AsyncIterator[RawEvent]:
        async for batch in self.batches():
            for event in batch:
                # Whoever stops in the middle of a batch goes on from there.
                self.resource_version = _version(event) or self.resource_version
                yield event

    def _read(self, lines: bytes) -> tuple[list[RawEvent], APIError | None]:
        """The events, up to the error if one of them is that."""
        events: list[RawEvent] = []
        try:
            for envelope in _read_envelopes(lines):
                raw = bytes(envelope.object)
                if envelope.type == "ERROR":
                    return events, _error(raw)
                events.append(RawEvent(envelope.type, raw, _read_header(raw)))
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"the server sent an event that cannot be read: {error}") from error
        return events, None

    async def aclose(self) -> None:
        """Give the connection up."""
        await self._stream.aclose()

    async def __aenter__(self) -> RawWatch:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.shield(self.aclose())


def _version(event: RawEvent) -> str:
    return event.header.metadata.resource_version or ""


def _error(raw: bytes) -> APIError:
    status: dict[str, Any] = msgspec.json.decode(raw)
    return APIError.from_status(status)


__all__ = ["RawEvent", "RawPage", "RawWatch", "read_page"]
