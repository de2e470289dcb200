"""Responses on a connection: heads; bodies that are written in one step, in pieces or as a stream; gzip.

`write_complete` writes a short response with its head in one call, `PiecewiseResponse` a long one in chunks
as the client reads them, `StreamedResponse` one of unknown length, such as a watch.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from kubewright.client.transport.headers import encode_head, encode_headers

from .messages import HTTPResponse

if TYPE_CHECKING:
    from .connection import ServerConnection

GZIP_MINIMUM = 128 * 1024
"""Longer responses are compressed if the client accepts gzip."""
_WRITE_SIZE = 128 * 1024
"""Bytes of a long response that are written at a time."""
NO_BODY = (204, 304)
"""Status codes of responses without a body."""
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_date: tuple[int, str] = (0, "")


def write_complete(connection: ServerConnection, response: HTTPResponse, body: bytes, *, close: bool) -> None:
    """Write headers and body in one step; raises `ConnectionResetError` if the client has disconnected."""
    transport = connection.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("client disconnected")
    transport.write(response_head(response, len(body), close=close) + body)


class _SentResponse:
    """A response that is written with flow control."""

    def __init__(self, response: HTTPResponse, connection: ServerConnection, *, close: bool) -> None:
        self._response = response
        self._connection = connection
        self._close = close

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
        batch: list[bytes | memoryview] = [response_head(response, response.length, close=self._close)]
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
        await self._write(response_head(self._response, None, close=self._close, chunked=chunked), None)

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


def http_date() -> str:
    """Return the value of the `Date` header."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = (now, formatdate(now, usegmt=True))
    return _date[1]


@lru_cache(256)
def _start(status: int, content_type: str) -> bytes:
    """Return status line and content type: few of them occur."""
    headers = [("Content-Type", content_type)] if status not in NO_BODY else []
    return encode_head(f"HTTP/1.1 {status} {_REASONS.get(status, '')}", headers, escape=True)[:-2]


def response_head(response: HTTPResponse, length: int | None, *, close: bool, chunked: bool = False) -> bytes:
    """Return status line and headers."""
    status = response.status
    headers = [("Date", http_date())]
    if status not in NO_BODY:
        if length is not None:
            headers.append(("Content-Length", str(length)))
        elif chunked:
            headers.append(("Transfer-Encoding", "chunked"))
    headers += header_pairs(response)
    if close:
        headers.append(("Connection", "close"))
    return _start(status, response.content_type) + encode_headers(headers, escape=True)


def header_pairs(response: HTTPResponse) -> list[tuple[str, str]]:
    """Return the headers of a response that its handler has set."""
    pairs: list[tuple[str, str]] = []
    for name, value in response.headers.items():
        if isinstance(value, str):
            pairs.append((name, value))
        else:
            pairs += [(name, each) for each in value]
    return pairs


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
