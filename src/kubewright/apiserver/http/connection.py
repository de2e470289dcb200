"""Connections of the HTTPS server: what aiohttp does not do as an API server needs it.

`ServerConnection` keeps the client certificate and closes idle connections, `CompleteResponse` writes short
responses in one step, `PiecewiseResponse` long ones in chunks and `StreamedResponse` those of unknown length,
`body_reader` reads request bodies within a limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

from aiohttp import StreamReader, WSMsgType, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpRequestParser
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from multidict import CIMultiDict, CIMultiDictProxy

from kubewright.api.errors import APIError, BadRequest
from kubewright.apiserver.authentication.x509 import PeerCertificate
from kubewright.client.transport.headers import encode_head, escape_headers, replace_surrogates

from .messages import HTTPResponse, too_large
from .unknown_methods import RequestParser

logger = logging.getLogger("kubewright.apiserver")

HEADER_TIMEOUT = 30.0
BODY_GRACE = 10.0
MINIMUM_BODY_RATE = 4096
"""Bytes per second at which bodies must arrive, after the first `BODY_GRACE` seconds."""
GZIP_MINIMUM = 128 * 1024
"""Longer responses are compressed if the client accepts gzip."""
_WRITE_SIZE = 128 * 1024
"""Bytes of a long response that are written at a time."""
_LAST_CHUNK = b"\r\n0\r\n\r\n"
"""The end of a chunked body without a trailer."""


class ServerConnection(RequestHandler):
    """One client connection: keeps the client certificate, closes if no request arrives in time."""

    __slots__ = ("_chunked", "_header_timer", "_last_bytes", "peer", "peer_known", "streaming")

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._parser: Any = RequestParser(self._make_parser)
        self.peer: PeerCertificate | None = None
        self.peer_known = False
        self.streaming: asyncio.Task[Any] | None = None
        self._header_timer: asyncio.TimerHandle | None = None
        self._chunked: StreamReader | None = None
        """The latest chunked body; later requests are not accepted before its end is known."""
        self._last_bytes: bytes | None = None
        """The last bytes that were received of it; `None` after its end."""

    def _make_parser(self) -> HttpRequestParser:
        """Return the parser that aiohttp would use."""
        return HttpRequestParser(
            self,
            self._loop,
            self._read_bufsize,
            max_line_size=self.max_line_size,
            max_field_size=self.max_field_size,
            max_headers=self.max_headers,
            payload_exception=RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=self._max_msg_queue_size,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the header timeout; switch to HTTP/2 if the client has negotiated it."""
        listener = cast("Listener | None", self._manager)
        upgrade = listener.http2 if listener is not None else None
        if upgrade is not None:
            tls = transport.get_extra_info("ssl_object")
            if tls is not None and tls.selected_alpn_protocol() == "h2":
                upgrade(transport)
                return
        super().connection_made(transport)
        timeout = listener.header_timeout if listener is not None else HEADER_TIMEOUT
        self._header_timer = self._loop.call_later(timeout, transport.close)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes. A chunked body must be the last data of its segment and have no trailer.

        The parser adds the last field of a trailer to the headers of the next request, where it could be an
        `Impersonate-User` or `Authorization`. The connection closes after a request with a trailer; requests
        that were pipelined behind a chunked body are discarded.
        """
        super().data_received(data)
        if self._messages or self._last_bytes is not None:
            self._check_chunked(data)

    def _check_chunked(self, data: bytes) -> None:
        messages = self._messages
        known = self._last_bytes is not None
        if known:
            self._last_bytes = ((self._last_bytes or b"") + data)[-len(_LAST_CHUNK) :]
        for place, (message, payload) in enumerate(messages):
            if payload is self._chunked or not getattr(message, "chunked", False):
                continue
            if known:
                break
            self._chunked, self._last_bytes, known = payload, data[-len(_LAST_CHUNK) :], True
            if place + 1 < len(messages):
                break
        if not known or self._chunked is None:
            return
        following = _after(messages, self._chunked)
        if not following and not self._chunked.is_eof():
            return
        if following or self._last_bytes != _LAST_CHUNK or self._buffer_paused:
            for _ in range(following):
                messages.pop()
            self.close()
        self._last_bytes = None

    def request_received(self, native: web.BaseRequest | None = None) -> None:
        """Stop the header timeout; close after a chunked request whose end was not checked."""
        if native is not None and native._message.chunked and native.content is not self._chunked:
            self.close()
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Close the connection; one without a request is closed immediately."""
        if self._current_request is None:
            self.close()
        await super().shutdown(timeout)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the stream to a client that has disconnected."""
        self.request_received()
        streaming, self.streaming = self.streaming, None
        if streaming is not None:
            streaming.cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to bytes that are not an HTTP request; logged at debug level only."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        logger.debug("malformed request", extra={"error": str(exc)})
        response = web.Response(status=status, text=f"{status} Bad Request: {message or exc}\n")
        response.force_close()
        return response

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until the client has read most of what was written; closes the connection after `timeout`."""
        if not self._paused:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._drain_helper()
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            raise ConnectionResetError("client does not read") from None

    def identify(self) -> PeerCertificate | None:
        """Return the client certificate, if there is one."""
        if not self.peer_known:
            self.peer_known = True
            self.peer = peer_certificate(self.transport)
        return self.peer


def peer_certificate(transport: asyncio.BaseTransport | None) -> PeerCertificate | None:
    """Return the certificate of the client of a TLS connection, if it has sent one."""
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    der = tls.getpeercert(True) if tls is not None else None
    return PeerCertificate(der) if der else None


def _after(messages: Iterable[tuple[Any, Any]], payload: StreamReader) -> int:
    """Return the number of messages after the one with this payload, which may have been taken already."""
    count = 0
    for _, each in messages:
        count = 0 if each is payload else count + 1
    return count


class Listener(web.Server):
    """Factory of `ServerConnection`s."""

    header_timeout = HEADER_TIMEOUT
    http2: Callable[[asyncio.BaseTransport], None] | None = None
    """Serves a connection as HTTP/2, if clients can negotiate it."""

    def __call__(self) -> RequestHandler:
        """Return a new connection."""
        return ServerConnection(self, loop=self._loop, **self._kwargs)


class CompleteResponse(web.StreamResponse):
    """A short response, written in one step: it skips most of aiohttp's work per response."""

    def __init__(self, response: HTTPResponse, body: bytes, *, close: bool) -> None:
        super().__init__(status=response.status)
        self._bytes = _head(response, len(body), close) + body
        self._keep_alive = not close

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write headers and body."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("client disconnected")
        transport.write(self._bytes)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""


class _SentResponse(web.StreamResponse):
    """A response that its handler has written to the connection when it returns."""

    def __init__(self, response: HTTPResponse, connection: ServerConnection, *, close: bool) -> None:
        super().__init__(status=response.status)
        self._response = response
        self._connection = connection
        self._keep_alive = not close

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Do nothing: the response has been written."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the response has been written."""

    async def _write(self, data: bytes, stall_timeout: float | None) -> None:
        connection = self._connection
        transport = connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("client disconnected")
        transport.write(data)
        if connection.writing_paused:
            await connection.drain(stall_timeout)


class PiecewiseResponse(_SentResponse):
    """A long response, written in chunks as the client reads them: it is never joined in memory."""

    async def send(self, stall_timeout: float) -> None:
        """Write headers and body.

        Raises `ConnectionResetError` if the client disconnects, or does not read for `stall_timeout` seconds.
        """
        response = self._response
        batch: list[bytes | memoryview] = [_head(response, response.length, not self._keep_alive)]
        size = 0
        for piece in limited_pieces(response.consume()):
            batch.append(piece)
            size += len(piece)
            if size > _WRITE_SIZE:
                data = b"".join(batch)
                batch.clear()
                del piece
                await self._write(data, stall_timeout)
                size = 0
                # A client that reads as fast as this writes never pauses the connection.
                await asyncio.sleep(0)
        if batch:
            await self._write(b"".join(batch), stall_timeout)


class StreamedResponse(_SentResponse):
    """A response of unknown length, written as its chunks become available.

    For clients that do not know chunks (HTTP/1.0), the body ends with the connection.
    """

    async def start(self, *, chunked: bool) -> None:
        """Write the headers."""
        self._is_chunked = chunked
        await self._write(_head(self._response, None, not self._keep_alive, chunked=chunked), None)

    async def send(self, data: bytes, stall_timeout: float | None = None) -> None:
        """Write one chunk, which must not be empty."""
        await self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data, stall_timeout)

    async def end(self) -> None:
        """Write the end of the body."""
        if self._is_chunked:
            await self._write(b"0\r\n\r\n", None)


def limited_pieces(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Split pieces of more than `_WRITE_SIZE` bytes."""
    for piece in pieces:
        if len(piece) <= _WRITE_SIZE:
            yield piece
        else:
            view = memoryview(piece)
            for start in range(0, len(view), _WRITE_SIZE):
                yield view[start : start + _WRITE_SIZE]


_REASONS = {status.value: status.phrase for status in HTTPStatus}
NO_BODY = (204, 304)
"""Status codes of responses without a body."""
_date: tuple[int, str] = (0, "")


def http_date() -> str:
    """Return the value of the `Date` header."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = (now, formatdate(now, usegmt=True))
    return _date[1]


def _head(response: HTTPResponse, length: int | None, close: bool, *, chunked: bool = False) -> bytes:
    """Return status line and headers."""
    status = response.status
    headers: list[tuple[str, str]] = []
    if status not in NO_BODY:
        headers.append(("Content-Type", response.content_type))
        if length is not None:
            headers.append(("Content-Length", str(length)))
        elif chunked:
            headers.append(("Transfer-Encoding", "chunked"))
    headers.append(("Date", http_date()))
    headers += header_pairs(response)
    if close:
        headers.append(("Connection", "close"))
    return encode_head(f"HTTP/1.1 {status} {_REASONS.get(status, '')}", headers, escape=True)


def header_pairs(response: HTTPResponse) -> list[tuple[str, str]]:
    """Return the headers of a response that its handler has set."""
    pairs: list[tuple[str, str]] = []
    for name, value in response.headers.items():
        if isinstance(value, str):
            pairs.append((name, value))
        else:
            pairs += [(name, each) for each in value]
    return pairs


class WebSocketAdapter:
    """A `WebSocket` on aiohttp."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or ""

    async def receive(self) -> bytes | str | None:
        """Return the next message."""
        message = await self._socket.receive()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data: bytes | str = message.data
            return data
        return None

    async def send(self, data: bytes | str) -> None:
        """Send one message."""
        if isinstance(data, str):
            await self._socket.send_str(data)
        else:
            await self._socket.send_bytes(data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection."""
        await self._socket.close(code=code, message=reason.encode())


def body_reader(native: web.BaseRequest, *, grace: float = BODY_GRACE) -> Callable[[int], Any]:
    """Return a function that reads a body within a limit, and at a minimum rate after `grace` seconds."""

    async def read(limit: int) -> bytes:
        length = native.content_length
        if length is not None and length > limit:
            raise too_large(limit)
        content = native.content
        if native.headers.get("Expect", "").lower() == "100-continue" and native.transport is not None:
            native.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunks, size = [], 0
        loop = asyncio.get_running_loop()
        started = loop.time()
        while True:
            if content.is_eof():
                chunk = content.read_nowait()
            else:
                try:
                    async with asyncio.timeout_at(started + grace + size / MINIMUM_BODY_RATE):
                        chunk = await content.readany()
                except TimeoutError:
                    error = APIError("the request body was not received in time", code=408)
                    error.headers["Connection"] = "close"
                    raise error from None
            if not chunk:
                break
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            chunks.append(chunk)
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if native.headers.get("Content-Encoding", "").lower() == "gzip":
            body = decompress(body, limit)
        return body

    return read


def decompress(body: bytes, limit: int) -> bytes:
    """Decompress a gzip body of at most `limit` bytes."""
    reader = zlib.decompressobj(31)
    try:
        plain = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadRequest(f"the body is not gzip: {error}") from None
    if len(plain) > limit:
        raise too_large(limit)
    if not reader.eof:
        raise BadRequest("the body is not gzip: unexpected end of data")
    return plain


def compress(pieces: Iterable[bytes | memoryview]) -> bytes:
    """Compress the pieces of a body with gzip, fast."""
    writer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [writer.compress(piece) for piece in limited_pieces(pieces)]
    return b"".join([*parts, writer.flush()])


async def compress_response(response: HTTPResponse) -> None:
    """Compress the body of a response with gzip, in a thread."""
    response.body = await asyncio.get_running_loop().run_in_executor(None, compress, response.consume())
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"


def received_headers(native: web.BaseRequest) -> CIMultiDictProxy[str]:
    """Return the headers of a request. Bytes that are not UTF-8 are U+FFFD, so that every value can be
    compared, logged, audited and forwarded."""
    headers: CIMultiDictProxy[str] = native.headers
    if all(value.isascii() for _, value in native.raw_headers):
        return headers
    return CIMultiDictProxy(CIMultiDict((name, replace_surrogates(value)) for name, value in headers.items()))


def response_headers(response: HTTPResponse) -> CIMultiDict[str]:
    """Return all headers of a response for aiohttp."""
    return CIMultiDict(escape_headers([("Content-Type", response.content_type), *header_pairs(response)]))
