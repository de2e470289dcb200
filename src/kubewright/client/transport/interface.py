"""`Transport`: the interface between the client and a connection to an API server.

`HTTPTransport` uses HTTP/1.1 over a connection pool; `InProcessTransport` of `kubewright.apiserver` calls a
server in the same process. The rest of the client and the cache use only this interface, so they can be run,
and tested with faults, without a network.

A transport transfers bytes. It does not retry and does not decode bodies. It raises `ConnectionFailed`
without a response; a response with any status code is an `APIResponse`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import NamedTuple, Protocol

from multidict import CIMultiDict

Headers = Mapping[str, str]
"""Headers of a request; a multidict can repeat a name."""


MAX_RESPONSE_BYTES = 512 << 20
"""Default maximum of a complete response, after decompression."""
MAX_SHORT_BODY = 1 << 20
"""Maximum size of an error response to a stream request, and of a response of an OIDC provider."""


class APIResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


class ResponseStream(Protocol):
    """A response with a streamed body: a watch or a log.

    Iterate it for chunks of any size. A broken connection raises `ConnectionFailed`; the end of the body
    ends the iteration.
    """

    status: int
    headers: CIMultiDict[str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate the chunks."""

    async def aclose(self) -> None:
        """Stop reading and close the connection."""


class WebSocketConnection(Protocol):
    """An open WebSocket."""

    protocol: str
    """The negotiated subprotocol."""

    async def receive(self) -> bytes | str | None:
        """Return the next message; `None` after the peer has closed."""

    async def send(self, data: bytes | str) -> None:
        """Send one message: bytes as binary, str as text."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the WebSocket."""


class Transport(Protocol):
    """Connections to one server with one identity.

    `path` starts with a slash and is escaped; `query` is encoded, without the question mark. The transport
    adds credentials (tokens, certificates, impersonation headers).
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
        """Send a request and return the complete response; `TimeoutError` after `timeout` seconds."""

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
        """Send a request with a streamed response.

        `timeout` applies to the response headers, `idle_timeout` to each pause in the body.
        """

    async def websocket(
        self,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        protocols: tuple[str, ...] = (),
        timeout: float | None = None,
    ) -> WebSocketConnection:
        """Open a WebSocket; `APIError` if the server rejects it."""

    def invalidate_credentials(self) -> bool:
        """Discard credentials that the server rejected; return whether a retry can succeed."""

    async def aclose(self) -> None:
        """Close all connections."""


async def read_limited(chunks: AsyncIterable[bytes], most: int = MAX_SHORT_BODY) -> bytes:
    """Read a short body, such as an error; at most `most` bytes."""
    body = b""
    async for chunk in chunks:
        body += chunk
        if len(body) >= most:
            break
    return body[:most]
