"""SPDY/3.1 sessions, as far as `kubectl exec` and `kubectl port-forward` use them.

The client opens streams; each gets a reply and carries bytes in both directions until both sides have ended
it. As in Kubernetes' own implementation there is no flow control beyond that of the connection.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

_NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges "
    "age allow authorization cache-control connection content-base content-encoding content-language "
    "content-length content-location content-md5 content-range content-type date etag expect expires from "
    "host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method get status,200 OK,"
    "version HTTP/1.1 url public set-cookie keep-alive origin"
)
_WORDS: Final = [
    word for part in _NAMES.split(",") for word in ([part] if part == "200 OK" else part.split(" "))
]
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
HEADER_DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS) + _REST.encode()
)
"""The preset dictionary of header compression, from the specification of SPDY/3."""

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_CONTROL: Final = 0x8000
_VERSION: Final = 3
_FIN: Final = 1
_CHUNK: Final = 32 * 1024
MAX_FRAME: Final = 1 << 24


class SpdyError(ConnectionError):
    """The client sent bytes that are not SPDY/3.1."""


class Pipe(Protocol):
    """The connection of a session."""

    async def receive(self) -> bytes:
        """Return received bytes; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Send bytes."""


class SpdyStream:
    """One stream of a session."""

    def __init__(self, session: SpdySession, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = False
        self._closed = False

    def feed(self, data: bytes) -> None:
        """Called by the session: data of the client; empty at its end."""
        if data or not self._ended:
            self._ended = self._ended or not data
            self._received.put_nowait(data)

    async def receive(self) -> bytes:
        """Return data of the client; empty after its end."""
        data = await self._received.get()
        if not data:
            self._received.put_nowait(b"")
        return data

    async def send(self, data: bytes) -> None:
        """Send data to the client."""
        for start in range(0, len(data), _CHUNK):
            if self._closed:
                raise ConnectionResetError("stream closed")
            await self._session.send_data(self.number, data[start : start + _CHUNK])

    async def close(self) -> None:
        """End this direction of the stream."""
        if not self._closed:
            self._closed = True
            await self._session.send_data(self.number, b"", end=True)

    def reset(self) -> None:
        """Called by the session after the client has reset the stream, or the connection has ended."""
        self._closed = True
        self.feed(b"")


class SpdySession:
    """The server side of a connection."""

    def __init__(self, pipe: Pipe, on_stream: Callable[[SpdyStream], Awaitable[None]]) -> None:
        """`on_stream` is awaited for each new stream and must not wait for its data."""
        self._pipe = pipe
        self._on_stream = on_stream
        self._streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=HEADER_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=HEADER_DICTIONARY)
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Process frames until the client closes the connection."""
        buffer = bytearray()
        try:
            while data := await self._pipe.receive():
                buffer += data
                while len(buffer) >= 8:
                    length = int.from_bytes(buffer[5:8], "big")
                    if len(buffer) < 8 + length:
                        break
                    head, body = bytes(buffer[:8]), bytes(buffer[8 : 8 + length])
                    del buffer[: 8 + length]
                    if not await self._frame(head, body):
                        return
        finally:
            for stream in list(self._streams.values()):
                stream.reset()

    async def _frame(self, head: bytes, body: bytes) -> bool:
        """Process a frame; return whether the session continues."""
        first, second, flags = struct.unpack(">HHB", head[:5])
        if not first & _CONTROL:
            stream = self._streams.get((first << 16) | second)
            if stream is not None:
                if body:
                    stream.feed(body)
                if flags & _FIN:
                    stream.feed(b"")
            return True
        if first & ~_CONTROL != _VERSION:
            raise SpdyError(f"unsupported SPDY version {first & ~_CONTROL}")
        if second == _SYN_STREAM:
            await self._open(body, flags)
        elif second == _RST_STREAM and len(body) >= 4:
            stream = self._streams.pop(int.from_bytes(body[:4], "big"), None)
            if stream is not None:
                stream.reset()
        elif second == _PING:
            await self._write(struct.pack(">HHBBH", _CONTROL | _VERSION, _PING, 0, 0, 4) + body[:4])
        return bool(second != _GOAWAY)

    async def _open(self, body: bytes, flags: int) -> None:
        number = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        stream = SpdyStream(self, number, self._read_headers(body[10:]))
        self._streams[number] = stream
        if flags & _FIN:
            stream.feed(b"")
        async with self._lock:
            block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            length = 4 + len(block)
            frame = struct.pack(
                ">HHBBHI", _CONTROL | _VERSION, _SYN_REPLY, 0, length >> 16, length & 0xFFFF, number
            )
            await self._pipe.send(frame + block)
        await self._on_stream(stream)

    def _read_headers(self, block: bytes) -> dict[str, str]:
        try:
            data = self._inflate.decompress(block, MAX_FRAME)
            (count,) = struct.unpack_from(">I", data)
            position, headers = 4, {}
            for _ in range(count):
                parts = []
                for _ in range(2):
                    (length,) = struct.unpack_from(">I", data, position)
                    parts.append(data[position + 4 : position + 4 + length].decode())
                    position += 4 + length
                headers[parts[0].lower()] = parts[1]
            return headers
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise SpdyError(f"cannot read headers: {error}") from None

    async def send_data(self, number: int, data: bytes, *, end: bool = False) -> None:
        """Send a data frame."""
        length = len(data)
        head = struct.pack(">IBBH", number, _FIN if end else 0, length >> 16, length & 0xFFFF)
        await self._write(head + data)

    async def _write(self, frame: bytes) -> None:
        async with self._lock:
            await self._pipe.send(frame)
