"""Requests and responses, independent of any HTTP library.

The server is one function, `APIServer.handle(HTTPRequest) -> HTTPResponse`. `HTTPServer` creates the request
from a connection, an in-process client creates it directly; the handlers are the same.

A response is complete (`body` or `pieces`), a `stream` of byte chunks (a watch, a log), a `websocket` handler
or a `tunnel` handler. The transport calls `aclose()` on a stream when the client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote

from multidict import CIMultiDict, CIMultiDictProxy

from kubewright.api.errors import APIError, RequestEntityTooLarge

if TYPE_CHECKING:
    from kubewright.apiserver.audit.auditor import RequestAudit
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.tracing.otlp import RequestSpan

    from .request_info import RequestInfo

Headers = Mapping[str, str]
_ASCII = bytes(range(0x21, 0x7F))


class Query:
    """The query of a URL, parsed at first use. Of several values the first counts, as in Go's
    `url.Values.Get`."""

    __slots__ = ("_values", "raw")

    def __init__(self, raw: str = "") -> None:
        self.raw = raw
        self._values: dict[str, list[str]] | None = None

    @property
    def values(self) -> dict[str, list[str]]:
        """All parameters with all values."""
        values = self._values
        if values is None:
            values = self._values = {}
            if self.raw:
                for name, value in parse_qsl(self.raw, keep_blank_values=True):
                    values.setdefault(name, []).append(value)
        return values

    def get(self, name: str) -> str:
        """Return the first value, or an empty string."""
        if not self.raw:
            return ""
        found = self.values.get(name)
        return found[0] if found else ""

    def all(self, name: str) -> list[str]:
        """Return all values."""
        return self.values.get(name, []) if self.raw else []

    def is_true(self, name: str) -> bool:
        """Read a boolean: absent, `0` and `false` are false, any other value (also an empty one) is true."""
        found = self.all(name)
        return bool(found) and found[0].lower() not in ("false", "0")

    def __contains__(self, name: str) -> bool:
        return bool(self.raw) and name in self.values

    def __bool__(self) -> bool:
        return bool(self.raw)


def quote_target(target: bytes) -> str:
    """Return the target of a request, with bytes that are not ASCII percent-encoded."""
    return target.decode() if target.isascii() else quote(target, safe=_ASCII)


class WarningRecorder:
    """The warnings of one response, in order and without duplicates; adding costs the same for each one."""

    __slots__ = ("_texts",)

    LIMIT = 4096
    """Maximum number of warnings; the `Warning` headers are limited to fewer."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Record a warning, once."""
        if len(self._texts) < self.LIMIT:
            self._texts[text] = None

    def discard(self, text: str) -> None:
        """Remove a warning if it was recorded."""
        self._texts.pop(text, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


BodyReader = Callable[[int], Awaitable[bytes]]
"""Reads a body up to a limit in bytes; raises `RequestEntityTooLarge` above it."""


class HTTPRequest:
    """One request.

    The pipeline sets `user`, `info` and `audit_id`; handlers add to `warnings`, which become `Warning`
    headers. `native` is the request of the HTTP library or the HTTP/2 connection, if there is one.
    """

    __slots__ = (
        "_body",
        "audit",
        "audit_annotations",
        "audit_id",
        "deadline",
        "headers",
        "info",
        "method",
        "native",
        "path",
        "peer_certificate",
        "query",
        "raw_path",
        "remote",
        "span",
        "user",
        "warnings",
    )

    user: User
    info: RequestInfo
    audit_annotations: dict[str, str]
    """Annotations of the audit event from before authentication; not set without any."""

    def __init__(
        self,
        method: str,
        path: str,
        *,
        query: str | Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | BodyReader = b"",
        user: User | None = None,
        peer_certificate: Any = None,
        remote: str = "",
        native: Any = None,
    ) -> None:
        """`path` is decoded. Without `query`, it is what follows `?` in the path."""
        if query is None:
            path, _, query = path.partition("?")
        self.method = method
        self.path = path
        self.raw_path = path
        self.query = query if isinstance(query, Query) else Query(query)
        self.headers: Mapping[str, str] = (
            headers if isinstance(headers, CIMultiDict | CIMultiDictProxy) else CIMultiDict(headers or {})
        )
        self._body = body
        self.peer_certificate = peer_certificate
        """The client certificate, not verified yet (`authentication.x509.PeerCertificate`)."""
        self.remote = remote
        self.native = native
        self.audit_id = ""
        self.span: RequestSpan | None = None
        """The span of the request, if it is traced."""
        self.audit: RequestAudit | None = None
        """The audit of the request, if an audit policy selects it."""
        self.deadline: float | None = None
        """Time of the event loop at which the request times out; `None` for long-running requests."""
        self.warnings = WarningRecorder()
        if user is not None:
            self.user = user

    def annotate(self, name: str, value: str) -> None:
        """Add an annotation to the audit event of the request."""
        if self.audit is not None:
            self.audit.annotations[name] = value
        elif hasattr(self, "audit_annotations"):
            self.audit_annotations[name] = value
        else:
            self.audit_annotations = {name: value}

    async def read(self, limit: int = 3 * 1024 * 1024) -> bytes:
        """Return the body; raises `RequestEntityTooLarge` above `limit` bytes."""
        body = self._body
        if isinstance(body, bytes):
            if len(body) > limit:
                raise too_large(limit)
            return body
        body = self._body = await body(limit)
        return body

    @property
    def has_unread_body(self) -> bool:
        """Whether the body has not been received yet."""
        return not isinstance(self._body, bytes)

    @property
    def body_size(self) -> int:
        """The number of bytes of the body; 0 before it has been received."""
        body = self._body
        return len(body) if isinstance(body, bytes) else 0

    def convert_body(self, convert: Callable[[bytes], bytes]) -> None:
        """Replace the body by a conversion of it, which happens when the body is read."""
        body = self._body

        async def read(limit: int) -> bytes:
            if isinstance(body, bytes):
                if len(body) > limit:
                    raise too_large(limit)
                return convert(body)
            return convert(await body(limit))

        self._body = read

    @property
    def received_body(self) -> bytes:
        """The body, empty if it has not been received."""
        body = self._body
        return body if isinstance(body, bytes) else b""

    async def prefetch(self, limit: int) -> None:
        """Receive the body; an error is raised by `read`."""
        try:
            await self.read(limit)
        except APIError as raised:
            error = raised

            async def fail(limit: int) -> bytes:
                raise error

            self._body = fail

    def warn(self, text: str) -> None:
        """Add a warning for the client, once."""
        self.warnings.add(text)


def too_large(limit: int) -> Exception:
    """Return the 413 for a body over `limit` bytes."""
    return RequestEntityTooLarge(f"Request entity too large: limit is {limit}")


class WebSocket(Protocol):
    """A WebSocket after the handshake."""

    protocol: str
    """The negotiated sub-protocol, or an empty string."""

    async def receive(self) -> bytes | str | None:
        """Return the next message; `None` after the peer has closed."""

    async def send(self, data: bytes | str) -> None:
        """Send one message: bytes as binary, str as text."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the WebSocket."""


class Tunnel(Protocol):
    """A connection after a 101 response, for any protocol."""

    async def receive(self) -> bytes:
        """Return received bytes; empty after the peer has disconnected."""

    async def send(self, data: bytes) -> None:
        """Write; raises `ConnectionError` after the peer has disconnected."""


Pieces = list[bytes | memoryview]


class GeneratedPieces:
    """A long body of known length that is generated while it is sent, so that it is never in memory."""

    __slots__ = ("_generate", "length")

    def __init__(self, length: int, generate: Callable[[], Iterator[bytes | memoryview]]) -> None:
        self.length = length
        self._generate = generate

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return self._generate()


class WrappedStream(AsyncIterator[bytes]):
    """A stream that changes or follows another one. It has the attributes of watches that transports use, if
    the other has them; a subclass returns the chunks."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream: Any = stream

    async def aclose(self) -> None:
        """Close the stream, also if nothing was read of it."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()

    @property
    def sending_initial_events(self) -> bool:
        """Whether a watch still sends existing objects."""
        return bool(getattr(self._stream, "sending_initial_events", False))

    @property
    def abort(self) -> Any:
        """The function that ends the connection of a slow client; only streams of watches have it."""
        return self._stream.abort

    @abort.setter
    def abort(self, abort: Any) -> None:
        self._stream.abort = abort


WebSocketHandler = Callable[[WebSocket], Awaitable[None]]
TunnelHandler = Callable[[Tunnel], Awaitable[None]]


class HTTPResponse:
    """The response to a request. Values of `headers` are lists for repeated headers."""

    __slots__ = (
        "_body",
        "_pieces_length",
        "content_type",
        "headers",
        "pieces",
        "protocols",
        "status",
        "stream",
        "tunnel",
        "websocket",
    )

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        *,
        content_type: str = "application/json",
        headers: dict[str, str | list[str]] | None = None,
        stream: AsyncIterator[bytes] | None = None,
        websocket: WebSocketHandler | None = None,
        protocols: tuple[str, ...] = (),
        pieces: Pieces | GeneratedPieces | None = None,
        tunnel: TunnelHandler | None = None,
    ) -> None:
        self.status = status
        self._body: bytes | None = body if pieces is None else None
        self.pieces = pieces
        """A long body in parts, which can be written without joining them; `body` joins them."""
        self._pieces_length = -1
        self.content_type = content_type
        self.headers: dict[str, str | list[str]] = headers if headers is not None else {}
        self.stream = stream
        self.websocket = websocket
        self.protocols = protocols
        """Sub-protocols of `websocket`, preferred first."""
        self.tunnel = tunnel
        """Handler of the connection after a 101 whose headers name the protocol."""

    @property
    def body(self) -> bytes:
        """The complete body."""
        body = self._body
        if body is None:
            body = self._body = b"".join(self.pieces or ())
            self.pieces = None
        return body

    @body.setter
    def body(self, body: bytes) -> None:
        self._body = body
        self.pieces = None

    async def read(self) -> bytes:
        """Return the complete body; other tasks run while a long one is generated."""
        if isinstance(self.pieces, GeneratedPieces):
            parts = []
            for piece in self.pieces:
                parts.append(piece)
                await asyncio.sleep(0)
            self.body = b"".join(parts)
        return self.body

    @property
    def length(self) -> int:
        """The length of the body."""
        if self.pieces is None:
            return len(self.body)
        if self._pieces_length < 0:
            pieces = self.pieces
            self._pieces_length = (
                pieces.length if isinstance(pieces, GeneratedPieces) else sum(map(len, pieces))
            )
        return self._pieces_length

    def consume(self) -> Iterator[bytes | memoryview]:
        """Yield the parts of the body, once; each is released when the caller has written it.

        Memory that is released in one step takes milliseconds to return to the operating system.
        """
        pieces = self.pieces
        if pieces is None:
            yield self.body
        elif isinstance(pieces, GeneratedPieces):
            yield from pieces
        else:
            pieces.reverse()
            while pieces:
                yield pieces.pop()

    def __repr__(self) -> str:
        return f"Response({self.status}, {self.length} bytes)"


def text(status: int, body: str) -> HTTPResponse:
    """Return a plain text response."""
    return HTTPResponse(status, body.encode(), content_type="text/plain; charset=utf-8", headers={})


def page_not_found() -> HTTPResponse:
    """Return the 404 for an unknown path."""
    response = text(404, "404 page not found\n")
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
