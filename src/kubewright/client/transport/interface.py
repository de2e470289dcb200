"""How a request reaches a server: one narrow interface with two implementations.

`http.HTTPTransport` speaks HTTP/1.1 over a pool of connections; `kubewright.apiserver.in_process` calls the
server's `handle` in the same process. What is above (`rest`, `client`, `cache`) knows only this interface, so
everything can be run, and disturbed, without a network.

A transport moves bytes. It does not retry, does not read bodies and raises `ConnectionFailed` when there is
no answer; an answer of any status is an `APIResponse`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import NamedTuple, Protocol

from multidict import CIMultiDict

Headers = Mapping[str, str]
"""Headers of a request; a multidict may repeat a name."""


MAX_SHORT_BODY = 1 << 20
"""Bytes of an error that comes in location of a stream, and of what an identity provider says."""


class APIResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


class ResponseStream(Protocol):
    """A response whose body arrives over time: a watch, a log.

    Iterate it for chunks as they come; they have no particular boundaries. A broken connection raises
    `ConnectionFailed`, an orderly end stops the iteration.
    """

    status: int
    headers: CIMultiDict[str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The chunks."""

    async def aclose(self) -> None:
        """Stop reading; the connection is given up."""


class WebSocketConnection(Protocol):
    """A WebSocket conversation, after the handshake."""

    protocol: str
    """The sub-protocol that was agreed on."""

    async def receive(self) -> bytes | str | None:
        """The next message; `None` when the peer has closed."""

    async def send(self, data: bytes | str) -> None:
        """Send one message; bytes are binary, text is text."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the conversation."""


class Transport(Protocol):
    """A way to one server, as one identity.

    `path` begins with a slash and is already escaped; `query` is encoded, without its question mark.
    Identity (tokens, certificates, impersonation) is added by the transport.
    """

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> APIResponse:
        """One request, one complete answer, within `timeout` seconds (`TimeoutError` beyond)."""

    async def stream(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> ResponseStream:
        """Start a streaming request; `timeout` is for its head, `idle_timeout` for each silence after it."""

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        """Open a WebSocket; `APIError` when the server refuses."""

    def invalidate_credentials(self) -> bool:
        """Forget credentials that the server has just refused; whether trying again makes sense."""

    async def aclose(self) -> None:
        """Close every connection."""


async def read_limited(chunks: AsyncIterable[bytes], most: int = MAX_SHORT_BODY) -> bytes:
    """A body that ought to be short, such as an error; what goes beyond `most` bytes is not read."""
    body = b""
    async for chunk in chunks:
        body += chunk
        if len(body) >= most:
            break
    return body[:most]


__all__ = ["APIResponse", "Headers", "ResponseStream", "Transport", "WebSocketConnection", "read_limited"]
