"""`Connection`: the client side of one HTTP/1.1 connection, limited to what API servers use.

Responses have a length or are chunked, and nothing is pipelined: a connection carries one exchange at a
time. A general HTTP client needs twice the CPU time per request. Bytes are parsed in `data_received`; a
stream that is read too slowly pauses the socket. A response that is read completely has a maximum length.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from multidict import CIMultiDict

from kubewright.client.errors import ConnectionFailed, ResponseTooLarge

from .interface import MAX_RESPONSE_BYTES, APIResponse

MAX_HEAD: Final = 256 * 1024
HIGH_WATER: Final = 1 << 20
"""Unread bytes of a stream at which the socket is paused."""

_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_HEAD, _LENGTH, _CHUNK_SIZE, _CHUNK, _CHUNK_END, _TRAILER, _UNTIL_CLOSE, _IDLE = range(8)


class Connection(asyncio.Protocol):
    """A connection and its current exchange."""

    def __init__(self, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self.max_response_bytes = max_response_bytes
        self.transport: asyncio.Transport | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.context: object = None
        """The TLS context of the connection; it is not reused after the context has changed."""
        self.idle_since = 0.0
        self.used = False
        self.reusable = True
        self._state = _IDLE
        self._buffer = b""
        self._left = 0
        self._method = ""
        self.received = False
        """Whether any byte of the response has been received."""
        self._status = 0
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._chunks_received: list[bytes] = []
        self._size = 0
        self._completed: asyncio.Future[Any] | None = None
        self._stream: BodyStream | None = None
        self._wants_stream = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast(asyncio.Transport, transport)
        self.loop = asyncio.get_running_loop()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop; fails the current exchange."""
        self.reusable = False
        if self._state == _UNTIL_CLOSE and exc is None:
            self._finish()
        elif self._state != _IDLE:
            self._fail(f"connection closed by the server{f': {exc}' if exc else ''}")

    @property
    def alive(self) -> bool:
        """Whether another exchange can start."""
        assert self.transport is not None
        return self.reusable and self._state == _IDLE and not self.transport.is_closing()

    def abort(self) -> None:
        """Close immediately."""
        self.reusable = False
        self._state = _IDLE
        if self.transport is not None:
            self.transport.abort()

    def close(self) -> None:
        """Close an idle connection."""
        self.reusable = False
        if self.transport is not None:
            self.transport.close()

    async def send(self, method: str, request: bytes) -> APIResponse:
        """Send a request and wait for the complete response."""
        self._begin(method, request, wants_stream=False)
        assert self._completed is not None
        await self._completed
        body = (
            self._chunks_received[0] if len(self._chunks_received) == 1 else b"".join(self._chunks_received)
        )
        self._chunks_received = []
        if body and "gzip" in self._headers.get("Content-Encoding", ""):
            body = _gunzip(body, self.max_response_bytes)
        return APIResponse(self._status, self._headers, body)

    async def stream(self, method: str, request: bytes) -> BodyStream:
        """Send a request and wait for the response headers."""
        self._begin(method, request, wants_stream=True)
        assert self._completed is not None
        await self._completed
        assert self._stream is not None
        return self._stream

    def _begin(self, method: str, request: bytes, *, wants_stream: bool) -> None:
        assert self.transport is not None
        self.used = True
        self._method = method
        self._wants_stream = wants_stream
        self._stream = None
        self._chunks_received = []
        self._size = 0
        self.received = False
        assert self.loop is not None
        self._completed = self.loop.create_future()
        self._state = _HEAD
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Called by the loop; parses the available bytes."""
        if self._state == _IDLE:
            # Data without a request: the server is closing the connection or out of sync.
            self.abort()
            return
        self.received = True
        try:
            if self._buffer:
                data = self._buffer + data
                self._buffer = b""
            self._parse(data)
        except ResponseTooLarge as error:
            self._fail(error)
        except ValueError as error:
            self._fail(f"invalid HTTP response: {error}")

    def _parse(self, data: bytes) -> None:
        position, end = 0, len(data)
        while position < end or (self._state == _LENGTH and not self._left):
            state = self._state
            if state == _HEAD:
                stop = data.find(b"\r\n\r\n", position)
                if stop < 0:
                    if end - position > MAX_HEAD:
                        raise ValueError("the headers are too long")
                    self._buffer = data[position:]
                    return
                self._read_head(data[position:stop])
                position = stop + 4
            elif state == _LENGTH:
                take = min(self._left, end - position)
                if take:
                    self._left -= take
                    self._body(data[position : position + take] if position or take < end else data)
                    position += take
                if not self._left:
                    self._finish()
                    break
            elif state == _CHUNK:
                take = min(self._left, end - position)
                self._left -= take
                self._body(data[position : position + take])
                position += take
                if not self._left:
                    self._state = _CHUNK_END
            elif state == _CHUNK_END:
                if end - position < 2:
                    self._buffer = data[position:]
                    return
                position += 2
                self._state = _CHUNK_SIZE
            elif state in (_CHUNK_SIZE, _TRAILER):
                stop = data.find(b"\r\n", position)
                if stop < 0:
                    if end - position > MAX_HEAD:
                        raise ValueError("a chunk header is too long")
                    self._buffer = data[position:]
                    return
                line = data[position:stop]
                position = stop + 2
                if state == _CHUNK_SIZE:
                    size = line.split(b";", 1)[0].strip()
                    if not size or len(size) > 16 or size.strip(_HEX_DIGITS):
                        raise ValueError(f"invalid chunk size {size[:20]!r}")
                    self._left = int(size, 16)
                    self._state = _CHUNK if self._left else _TRAILER
                elif not line:
                    self._finish()
                    break
            elif state == _UNTIL_CLOSE:
                self._body(data[position:])
                return
            else:
                break
        if position < end and self._state == _IDLE:
            self.reusable = False

    def _read_head(self, head: bytes) -> None:
        lines = head.decode("utf-8", "surrogateescape").split("\r\n")
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
            raise ValueError(f"invalid status line {lines[0][:80]!r}")
        status = int(parts[1])
        if 100 <= status < 200 and status != 101:
            return
        headers: CIMultiDict[str] = CIMultiDict()
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"invalid header {line[:80]!r}")
            headers.add(name, value.strip())
        self._status, self._headers = status, headers
        connection = headers.get("Connection", "").lower()
        if "close" in connection or (parts[0] == "HTTP/1.0" and "keep-alive" not in connection):
            self.reusable = False
        if self._method == "HEAD" or status in (204, 304):
            self._state, self._left = _LENGTH, 0
        elif "chunked" in headers.get("Transfer-Encoding", "").lower():
            self._state = _CHUNK_SIZE
        elif (length := headers.get("Content-Length")) is not None:
            if not length.isdecimal() or len(length) > 18:
                raise ValueError(f"invalid Content-Length {length[:20]!r}")
            self._state, self._left = _LENGTH, int(length)
            if not self._wants_stream and self._left > self.max_response_bytes:
                raise response_too_large(self.max_response_bytes)
        else:
            self._state = _UNTIL_CLOSE
            self.reusable = False
        if self._wants_stream:
            self._stream = BodyStream(self, status, headers)
            self._resolve()

    def _body(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(data)
            return
        self._size += len(data)
        if self._size > self.max_response_bytes:
            raise response_too_large(self.max_response_bytes)
        self._chunks_received.append(data)

    def _resolve(self) -> None:
        if self._completed is not None and not self._completed.done():
            self._completed.set_result(None)

    def _finish(self) -> None:
        self._state = _IDLE
        if self._stream is not None:
            self._stream.feed_end()
        else:
            self._resolve()

    def _fail(self, why: str | ConnectionFailed) -> None:
        error = ConnectionFailed(why, sent=True) if isinstance(why, str) else why
        self.abort()
        if self._stream is not None:
            self._stream.feed_end(error)
        elif self._completed is not None and not self._completed.done():
            self._completed.set_exception(error)


class BodyStream:
    """A streamed response body."""

    def __init__(self, connection: Connection, status: int, headers: CIMultiDict[str]) -> None:
        self.status = status
        self.headers = headers
        self.idle_timeout: float | None = None
        self.on_close: Any = None
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._waiting = 0
        self._paused = False
        self._ended = False
        self._error: ConnectionFailed | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def _transport(self) -> asyncio.Transport:
        assert self._connection.transport is not None
        return self._connection.transport

    def feed(self, data: bytes) -> None:
        """Called by the connection."""
        self._chunks.append(data)
        self._waiting += len(data)
        if self._waiting > HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def feed_end(self, error: ConnectionFailed | None = None) -> None:
        """Called by the connection."""
        self._ended, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._ended:
                await self.aclose()
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                if self.idle_timeout is None:
                    await self._waiter
                else:
                    async with asyncio.timeout(self.idle_timeout):
                        await self._waiter
            except TimeoutError:
                await self.aclose()
                raise ConnectionFailed(f"no data received for {self.idle_timeout:.0f} s") from None
            finally:
                self._waiter = None
        chunk = self._chunks.popleft() if len(self._chunks) == 1 else self._join_chunks()
        self._waiting = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return chunk

    def _join_chunks(self) -> bytes:
        whole = b"".join(self._chunks)
        self._chunks.clear()
        return whole

    async def read(self) -> bytes:
        """Read the rest of the body."""
        return b"".join([chunk async for chunk in self])

    async def aclose(self) -> None:
        """Close the connection, or release it if the body was read completely."""
        done, self.on_close = self.on_close, None
        if done is not None:
            done()
        self._chunks.clear()
        if not self._ended:
            self._ended = True
            self._wake()


def response_too_large(most: int) -> ResponseTooLarge:
    """Return the error for a response of more than `most` bytes."""
    return ResponseTooLarge(
        f"the response is longer than {most} bytes; narrow the request (limit, selector) "
        "or raise max_response_bytes"
    )


def _gunzip(body: bytes, most: int) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(body, most + 1)
    except zlib.error as error:
        raise ConnectionFailed(f"the response is not valid gzip: {error}") from None
    if len(plain) > most:
        raise response_too_large(most)
    if not reader.eof:
        raise ConnectionFailed("the gzip response is truncated")
    return plain
