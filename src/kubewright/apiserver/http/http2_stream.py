"""One request and its response on an HTTP/2 connection.

`HTTP2Stream.run` creates the `HTTPRequest`, calls `APIServer.handle` and sends the `HTTPResponse` as the
client accepts it. Bodies are received within the limit and rate of HTTP/1.1; what a client has not accepted
yet of a response counts as unsent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from h2.errors import ErrorCodes
from multidict import CIMultiDict

from kubewright.api.errors import APIError, BadRequest, TooManyRequests
from kubewright.apiserver.encoding.negotiation import status_response
from kubewright.client.transport.headers import escape_value

from .connection import MINIMUM_BODY_RATE, decompress
from .messages import HTTPRequest, HTTPResponse, quote_target, text, too_large
from .responses import (
    GZIP_MINIMUM,
    NO_BODY,
    compress_response,
    header_pairs,
    http_date,
    limited_pieces,
)

if TYPE_CHECKING:
    from .http2 import HTTP2Connection

logger = logging.getLogger("kubewright.apiserver")

_CONNECTION_HEADERS = frozenset(
    ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
)
"""Headers that HTTP/2 does not allow."""


class HTTP2Stream:
    """A stream: one request and its response."""

    __slots__ = (
        "_body",
        "_can_send",
        "_connection",
        "_has_ended",
        "_headers",
        "_is_closed",
        "_is_reading",
        "_limit",
        "_number",
        "_readable",
        "_target",
        "_unacknowledged",
        "method",
        "task",
    )

    def __init__(
        self,
        connection: HTTP2Connection,
        number: int,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        has_body: bool,
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._connection = connection
        self._number = number
        self.method = ""
        self._target = ""
        fields: list[tuple[str, str]] = []
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("ascii", "replace"), raw_value.decode("utf-8", "replace")
            if name[0] != ":":
                fields.append((name, value))
            elif name == ":method":
                self.method = value
            elif name == ":path":
                self._target = quote_target(raw_value)
            elif name == ":authority":
                fields.append(("Host", value))
        self._headers = CIMultiDict(fields)
        self._has_ended = not has_body
        self._body = bytearray()
        self._unacknowledged = 0
        self._is_reading = False
        self._limit = 0
        self._is_closed = False
        self._readable: asyncio.Event | None = asyncio.Event() if has_body else None
        self._can_send: asyncio.Event | None = None

    # Called by the connection.

    def receive(self, data: bytes, size: int) -> None:
        """Add bytes of the request body; `size` counts for flow control."""
        self._body += data
        if self._is_reading and len(self._body) <= self._limit:
            self._connection.acknowledge(size, self._number)
        else:
            self._unacknowledged += size
        if self._readable is not None:
            self._readable.set()

    def receive_end(self) -> None:
        """Note the end of the request body."""
        self._has_ended = True
        if self._readable is not None:
            self._readable.set()

    def window_opened(self) -> None:
        """Continue to send: the client accepts more bytes."""
        if self._can_send is not None:
            self._can_send.set()

    def close(self) -> None:
        """Note that the client has reset the stream or disconnected."""
        self._is_closed = True
        self.window_opened()

    # The request.

    async def run(self) -> None:
        """Serve the request."""
        connection = self._connection
        try:
            await self._serve()
            if not self._has_ended and not self._is_closed:
                connection.reset(self._number, ErrorCodes.NO_ERROR)
        except ConnectionError:
            logger.debug("client disconnected", extra={"path": self._target})
        except Exception:
            logger.exception("request failed", extra={"method": self.method, "path": self._target})
            connection.reset(self._number, ErrorCodes.INTERNAL_ERROR)
        finally:
            if self._unacknowledged:
                connection.acknowledge(self._unacknowledged, self._number)
                connection.flush()
            connection.forget(self._number)

    async def _serve(self) -> None:
        connection = self._connection
        target = self._target
        if target[:1] not in ("/", "*"):
            await self._send_short(text(400, "400 Bad Request: malformed path\n"))
            return
        path, _, query = target.partition("?")
        request = HTTPRequest(
            self.method,
            unquote(path) if "%" in path else path,
            query=query,
            headers=self._headers,
            body=b"" if self._has_ended and not self._body else self._read,
            peer_certificate=connection.peer,
            native=connection,
        )
        request.raw_path = path
        response = await connection.server.server.handle(request)
        if response.stream is not None:
            await self._stream(response)
        elif response.websocket is not None or response.tunnel is not None:
            error = BadRequest("upgrades need HTTP/1.1")
            await self._send_short(status_response(request, error))
        else:
            await self._send_complete(request, response)

    async def _read(self, limit: int) -> bytes:
        """Return the request body."""
        length = self._headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise too_large(limit)
        if (
            not self._has_ended
            and not self._body
            and self._headers.get("expect", "").lower() == "100-continue"
        ):
            self._connection.send_headers(self._number, [(b":status", b"100")])
        self._is_reading, self._limit = True, limit
        pending, self._unacknowledged = self._unacknowledged, 0
        self._connection.acknowledge(pending, self._number)
        self._connection.flush()
        started = asyncio.get_running_loop().time()
        readable = self._readable
        assert readable is not None
        while not self._has_ended and len(self._body) <= limit:
            readable.clear()
            deadline = started + self._connection.server.body_grace + len(self._body) / MINIMUM_BODY_RATE
            try:
                async with asyncio.timeout_at(deadline):
                    await readable.wait()
            except TimeoutError:
                raise APIError("the request body was not received in time", code=408) from None
        if len(self._body) > limit:
            raise too_large(limit)
        body = bytes(self._body)
        if self._headers.get("content-encoding", "").lower() == "gzip":
            body = decompress(body, limit)
        return body

    # The response.

    async def _send_complete(self, request: HTTPRequest, response: HTTPResponse) -> None:
        """Send a body of known length in one step if the client accepts it, else counted as unsent."""
        length = response.length
        connection = self._connection
        compresses = (
            length > GZIP_MINIMUM
            and "Content-Encoding" not in response.headers
            and "gzip" in self._headers.get("accept-encoding", "")
        )
        if not compresses and not connection.is_paused and length <= connection.window(self._number):
            await self._send_short(response)
            return
        server = connection.server
        try:
            count = server.count_unsent(request, length)
        except TooManyRequests as error:
            await self._send_short(status_response(request, error))
            return
        with count:
            if compresses:
                await compress_response(response)
            connection.send_headers(self._number, _headers(response, response.length))
            for piece in limited_pieces(response.consume()):
                await self._send(piece, server.stall_timeout)
            connection.end(self._number)
            connection.flush()

    async def _send_short(self, response: HTTPResponse) -> None:
        body = response.body
        connection = self._connection
        connection.send_headers(self._number, _headers(response, len(body)), end=not body)
        if body:
            sent = connection.send_data(self._number, body, end=True)
            if sent < len(body):
                await self._send(memoryview(body)[sent:], connection.server.stall_timeout, end=True)
        connection.flush()

    async def _stream(self, response: HTTPResponse) -> None:
        """Send a body of unknown length, such as that of a watch, as its chunks become available."""
        stream = response.stream
        assert stream is not None
        connection = self._connection
        if hasattr(stream, "abort"):
            stream.abort = self._abort
        try:
            connection.send_headers(self._number, _headers(response, None))
            connection.flush()
            async for chunk in stream:
                if chunk:
                    initial = getattr(stream, "sending_initial_events", False)
                    await self._send(chunk, connection.server.stall_timeout if initial else None)
            connection.end(self._number)
            connection.flush()
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _abort(self) -> None:
        """Reset the stream of a client that does not read its watch."""
        self._is_closed = True
        self._connection.reset(self._number, ErrorCodes.CANCEL)
        if self.task is not None:
            self.task.cancel()

    async def _send(
        self, data: bytes | memoryview, stall_timeout: float | None, *, end: bool = False
    ) -> None:
        """Send bytes as the client accepts them.

        Raises `ConnectionResetError` if the stream or connection is closed, or the client accepts nothing for
        `stall_timeout` seconds.
        """
        connection, number = self._connection, self._number
        rest = data
        while rest:
            if self._is_closed or not connection.is_open:
                raise ConnectionResetError("client disconnected")
            if connection.is_paused or connection.turn.locked():
                async with connection.turn:
                    await connection.wait_writable(stall_timeout)
                    sent = connection.send_data(number, rest, end=end)
                    connection.flush()
            else:
                sent = connection.send_data(number, rest, end=end)
                connection.flush()
            rest = rest[sent:]
            if rest and not sent:
                await self._wait_for_window(stall_timeout)

    async def _wait_for_window(self, timeout: float | None) -> None:
        if self._can_send is None:
            self._can_send = asyncio.Event()
        self._can_send.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._can_send.wait()
        except TimeoutError:
            self._connection.reset(self._number, ErrorCodes.CANCEL)
            raise ConnectionResetError("client does not read") from None


def _headers(response: HTTPResponse, length: int | None) -> list[tuple[bytes, bytes]]:
    """Return the header fields of a response."""
    fields = [(b":status", b"%d" % response.status)]
    if response.status not in NO_BODY:
        fields.append((b"content-type", escape_value(response.content_type).encode()))
        if length is not None:
            fields.append((b"content-length", b"%d" % length))
    fields.append((b"date", http_date().encode()))
    for name, value in header_pairs(response):
        name = name.lower()
        if name not in _CONNECTION_HEADERS:
            fields.append((name.encode(), escape_value(value).encode()))
    return fields
