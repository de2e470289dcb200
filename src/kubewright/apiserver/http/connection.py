"""Connections of the HTTPS server: aiohttp's parser and flow control, with a request loop of our own.

`ServerConnection` turns messages of the parser into `ReceivedRequest`s and calls the server's handler in the
task of the connection, one after the other; the loop of aiohttp creates a task and three more objects for
each request. It also keeps the client certificate and closes idle connections. `body_reader` reads request
bodies within a limit.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from aiohttp import HttpVersion, StreamReader, WSMsgType, web
from aiohttp.helpers import set_exception
from aiohttp.http import HttpRequestParser, RawRequestMessage, StreamWriter
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from multidict import CIMultiDict, CIMultiDictProxy

from kubewright.api.errors import APIError, BadRequest
from kubewright.apiserver.authentication.x509 import PeerCertificate
from kubewright.client.transport.headers import replace_surrogates

from .messages import HTTPResponse, text, too_large
from .responses import write_complete
from .unknown_methods import RequestParser

logger = logging.getLogger("kubewright.apiserver")

HEADER_TIMEOUT = 30.0
BODY_GRACE = 10.0
MINIMUM_BODY_RATE = 4096
"""Bytes per second at which bodies must arrive, after the first `BODY_GRACE` seconds."""
_LAST_CHUNK = b"\r\n0\r\n\r\n"
"""The end of a chunked body without a trailer."""


class ReceivedRequest:
    """A request on a connection: the parser's message, and its body as it arrives."""

    __slots__ = ("connection", "content", "message")

    def __init__(
        self, message: RawRequestMessage, content: StreamReader, connection: ServerConnection
    ) -> None:
        self.message = message
        self.content = content
        self.connection = connection

    @property
    def version(self) -> HttpVersion:
        """The version of HTTP."""
        return self.message.version

    @property
    def keeps_alive(self) -> bool:
        """Whether the client can send further requests on the connection."""
        return not self.message.should_close

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport of the connection; `None` after the client has disconnected."""
        return self.connection.transport

    @property
    def remote(self) -> str | None:
        """The address of the client."""
        peer = self.connection.peername
        return str(peer[0]) if isinstance(peer, list | tuple) else peer

    def accepts_gzip(self) -> bool:
        """Whether the response may be compressed."""
        return "gzip" in self.message.headers.get("Accept-Encoding", "")

    def base_request(self) -> web.BaseRequest:
        """Return the request as aiohttp's WebSockets need it."""
        return self.connection.make_base_request(self.message, self.content)

    def _cancel(self, error: BaseException) -> None:
        """Called by aiohttp when the client disconnects: reading the body fails."""
        set_exception(self.content, error)

    def _finish(self) -> None:
        """Called by aiohttp after a declined upgrade."""


class _Written(web.StreamResponse):
    """The response to a declined upgrade, which has been written."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing."""


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

    def make_base_request(self, message: RawRequestMessage, content: StreamReader) -> web.BaseRequest:
        """Return a request for parts of aiohttp that need one."""
        factory, task = self._request_factory, self._task_handler
        if factory is None or task is None:
            raise ConnectionResetError("client disconnected")
        return factory(message, content, self, StreamWriter(self, self._loop), task)

    async def start(self) -> None:
        """Serve the requests of the connection until it closes; the task of the connection."""
        listener = cast("Listener", self._manager)
        handle, messages = listener.handle, self._messages
        while not self._force_close:
            if not messages:
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
            message, content = messages.popleft()
            if self._parser is not None:
                self._parser.message_consumed()
            if self._buffer_paused and len(messages) <= self._msg_queue_resume_size:
                self._resume_reading_if_drained()
            listener.requests_count += 1
            self._cancel_header_timer()
            if not isinstance(message, RawRequestMessage):
                self._reject(str(message.message or message.exc), message.exc)
                break
            if message.chunked and content is not self._chunked:
                self.close()  # its end was not checked
            request = ReceivedRequest(message, content, self)
            if not await self._serve(request, handle) or not await self._can_continue(request):
                break
            self._next_keepalive_close_time = close_time = self._loop.time() + self._keepalive_timeout
            if self._keepalive_handle is None:
                self._keepalive_handle = self._loop.call_at(close_time, self._process_keepalive)
        if not self._force_close:
            self._task_handler = None
            if self.transport is not None:
                self.transport.close()

    async def _serve(
        self, request: ReceivedRequest, handle: Callable[[ReceivedRequest], Awaitable[bool]]
    ) -> bool:
        """Serve one request; returns whether the connection stays open."""
        self._request_in_progress = True
        self._current_request = cast(web.BaseRequest, request)
        try:
            return await handle(request)
        except ConnectionError:
            logger.debug("client disconnected", extra={"path": request.message.path})
            return False
        except asyncio.CancelledError:
            self.force_close()
            raise
        except Exception:
            logger.exception("request failed", extra={"path": request.message.path})
            self.force_close()
            return False
        finally:
            self._current_request = None
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)

    async def _can_continue(self, request: ReceivedRequest) -> bool:
        """Discard the rest of the body; returns whether the connection can have another request."""
        content = request.content
        if self._upgraded:
            # The upgrade was declined; what was received after the request are further requests.
            await self.finish_response(cast(web.BaseRequest, request), _Written(), None)
        if not content.is_eof() and not self._force_close:
            try:
                async with asyncio.timeout(self._lingering_time):
                    while not content.is_eof():
                        await content.readany()
            except (TimeoutError, ConnectionError, RequestPayloadError):
                return False
        return not self._close and not self._force_close

    def _reject(self, reason: str, error: BaseException | None) -> None:
        """Respond to bytes that are not an HTTP request; logged at debug level only."""
        logger.debug("malformed request", extra={"error": str(error)})
        try:
            write_complete(self, *_bad_request(reason), close=True)
        except ConnectionError:
            pass

    def _cancel_header_timer(self) -> None:
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
        self._cancel_header_timer()
        streaming, self.streaming = self.streaming, None
        if streaming is not None:
            streaming.cancel()
        super().connection_lost(exc)

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


def _bad_request(reason: str) -> tuple[HTTPResponse, bytes]:
    response = text(400, f"400 Bad Request: {reason}\n")
    return response, response.body


async def _unused(request: web.BaseRequest) -> web.StreamResponse:
    raise NotImplementedError


class Listener(web.Server):
    """Factory of `ServerConnection`s, whose requests `handle` serves.

    `handle` writes the response, and returns whether the connection stays open.
    """

    def __init__(self, handle: Callable[[ReceivedRequest], Awaitable[bool]], **settings: Any) -> None:
        super().__init__(_unused, access_log=None, auto_decompress=False, **settings)
        self.handle = handle

    header_timeout = HEADER_TIMEOUT
    http2: Callable[[asyncio.BaseTransport], None] | None = None
    """Serves a connection as HTTP/2, if clients can negotiate it."""

    def __call__(self) -> RequestHandler:
        """Return a new connection."""
        return ServerConnection(self, loop=self._loop, **self._kwargs)


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


def body_reader(request: ReceivedRequest, *, grace: float = BODY_GRACE) -> Callable[[int], Any]:
    """Return a function that reads a body within a limit, and at a minimum rate after `grace` seconds."""

    async def read(limit: int) -> bytes:
        headers, content, transport = request.message.headers, request.content, request.transport
        length = headers.get("Content-Length")
        if length is not None and int(length) > limit:
            raise too_large(limit)
        if headers.get("Expect", "").lower() == "100-continue" and transport is not None:
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
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
        if headers.get("Content-Encoding", "").lower() == "gzip":
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


def received_headers(message: RawRequestMessage) -> CIMultiDictProxy[str]:
    """Return the headers of a request. Bytes that are not UTF-8 are U+FFFD, so that every value can be
    compared, logged, audited and forwarded."""
    headers: CIMultiDictProxy[str] = message.headers
    for _, value in message.raw_headers:
        if not value.isascii():
            pairs = ((name, replace_surrogates(each)) for name, each in headers.items())
            return CIMultiDictProxy(CIMultiDict(pairs))
    return headers
