"""HTTP/2 connections of the HTTPS server, on the h2 library.

Clients that negotiate `h2` by ALPN send all requests and watches on one connection. `HTTP2Connection`
receives frames, starts one task per stream (`HTTP2Stream`) and bounds what a client can cause:

- A client that does not read is not read from, so that its pings, settings and requests produce no unbounded
  output; see `HTTP2Connection.pause_writing`.
- A client that resets more than `MAX_RESETS` streams in `RESET_PERIOD` seconds is disconnected with
  ENHANCE_YOUR_CALM, and requests whose tasks have not ended yet count as concurrent streams.
- Header blocks are limited to `MAX_HEADER_LIST_SIZE` and, by h2, to 64 CONTINUATION frames.

Server push, trailers of responses, priorities and upgrades are not supported: WebSocket and SPDY clients open
HTTP/1.1 connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, ProtocolError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from hpack import Encoder
from hpack.hpack import encode_integer
from hyperframe.frame import Frame, GoAwayFrame

from .connection import peer_certificate
from .http2_stream import HTTP2Stream

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.x509 import PeerCertificate

    from .server import HTTPServer

logger = logging.getLogger("kubewright.apiserver")

MAX_STREAMS = 250
"""Concurrent requests of one connection, as in kube-apiserver."""
MAX_HEADER_LIST_SIZE = 1024 * 1024
STREAM_WINDOW = 256 * 1024
"""Bytes of a request body that a client may send before the server reads them."""
CONNECTION_WINDOW = 16 * 1024 * 1024
"""Bytes of all request bodies of a connection that a client may send before the server reads them."""
MAX_RESETS = 1000
RESET_PERIOD = 10.0
"""Seconds in which a client may reset `MAX_RESETS` requests that have no response yet."""
PING_INTERVAL = 30.0
"""Seconds without received bytes after which a client with open streams is pinged, and then disconnected."""
IDLE_TIMEOUT = 180.0
"""Seconds after which a connection without streams is closed."""
NOT_PROCESSED = ErrorCodes(7)
"""Error code of streams that were not processed (RFC 9113, section 7); clients send the request again."""
_FRAME_BATCH = 64 * 1024
"""Bytes of a response that are framed before other streams get their turn."""


class LiteralEncoder(Encoder):
    """An HPACK encoder that sends all fields as literals, without a dynamic table and Huffman coding.

    A response has a few short fields that repeat, and an audit id that does not: to look them up in a table
    costs more time than the 200 bytes that it saves.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_first = True

    def encode(self, headers: Any, huffman: bool = False) -> bytes:
        """Return an encoded header block."""
        # The first block sets the size of the table to 0, as the client may limit it.
        block = bytearray(b"\x20" if self._is_first else b"")
        self._is_first = False
        for name, value in headers:
            if value == b"200" and name == b":status":
                block.append(0x88)
                continue
            block.append(0)
            for text in (name, value):
                block += bytes((len(text),)) if len(text) < 127 else encode_integer(len(text), 7)
                block += text
        return bytes(block)


class BoundedFrameBuffer(FrameBuffer):
    """A frame buffer that rejects a frame over the limit before it has received all of it."""

    def __next__(self) -> Frame:
        if len(self._data) >= 9:
            self._validate_frame_length(int.from_bytes(self._data[:3]))
        return super().__next__()


class HTTP2Connection(asyncio.Protocol):
    """One HTTP/2 connection of an `HTTPServer`."""

    def __init__(self, server: HTTPServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.peer: PeerCertificate | None = None
        self.is_paused = False
        """Whether the client does not read fast enough; streams wait in `send`."""
        self.turn = asyncio.Lock()
        """Held by the stream that writes next while the client does not read: streams write in turns."""
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._streams: dict[int, HTTP2Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._resets: deque[float] = deque()
        self._last_stream = 0
        self._is_draining = False
        self._has_request = False
        self._bytes_received = False
        self._is_pinged = False
        self._idle_since = self._paused_since = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._header_timer: asyncio.TimerHandle | None = None
        self._h2 = H2Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        self._h2.incoming_buffer = BoundedFrameBuffer(server=True)
        self._h2.encoder = LiteralEncoder()
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_SIZE,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self._h2.decoder.max_header_list_size = MAX_HEADER_LIST_SIZE

    # Called by the event loop.

    @property
    def remote(self) -> str:
        """The address of the client."""
        address = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(address[0]) if isinstance(address, tuple) else ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the settings and start the timeouts."""
        self._transport = cast(asyncio.Transport, transport)
        self.peer = peer_certificate(self._transport)
        self.server.http2_connections.add(self)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - 65535)
        self.flush()
        self._header_timer = self._loop.call_later(self.server.header_timeout, self._close_without_request)
        self._timer = self._loop.call_later(PING_INTERVAL, self._check_alive)

    def data_received(self, data: bytes) -> None:
        """Process received frames."""
        self._bytes_received = True
        try:
            events = self._h2.receive_data(data)
        except ProtocolError as error:
            logger.debug("HTTP/2 protocol error", extra={"error": str(error)})
            # h2 has sent GOAWAY, unless the preface is wrong.
            if self.flush():
                self._end()
            else:
                self._terminate(error.error_code)
            return
        except Exception as error:
            # Bytes of a client, not authenticated yet: what h2 does not recognize is the client's error.
            logger.debug("malformed HTTP/2 frame", extra={"error": repr(error)})
            self._terminate(ErrorCodes.PROTOCOL_ERROR)
            return
        for event in events:
            if not self.is_open:
                return
            self._process(event)
        self.flush()

    def eof_received(self) -> None:
        """Close the connection: a client that sends nothing more cannot acknowledge responses."""

    def pause_writing(self) -> None:
        """Stop reading until the client reads: control frames and requests would produce more output."""
        self.is_paused = True
        self._paused_since = self._loop.time()
        self._writable.clear()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        self.is_paused = False
        self._writable.set()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel all requests and watches of the connection."""
        self._transport = None
        for timer in (self._timer, self._header_timer):
            if timer is not None:
                timer.cancel()
        self.server.http2_connections.discard(self)
        self._writable.set()
        for stream in list(self._streams.values()):
            stream.close()
        for task in self._tasks:
            task.cancel()

    # Received frames.

    def _process(self, event: object) -> None:
        if isinstance(event, RequestReceived):
            self._start_stream(event)
        elif isinstance(event, DataReceived):
            stream = self._streams.get(event.stream_id or 0)
            if stream is not None:
                stream.receive(event.data or b"", event.flow_controlled_length or 0)
            else:
                self.acknowledge(event.flow_controlled_length or 0, event.stream_id or 0)
        elif isinstance(event, StreamEnded):
            stream = self._streams.get(event.stream_id or 0)
            if stream is not None:
                stream.receive_end()
        elif isinstance(event, WindowUpdated) and event.stream_id:
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                stream.window_opened()
        elif isinstance(event, (WindowUpdated, RemoteSettingsChanged)):
            for stream in self._streams.values():
                stream.window_opened()
        elif isinstance(event, StreamReset):
            self._stream_reset(event.stream_id or 0)
        elif isinstance(event, ConnectionTerminated):
            self._end()

    def _start_stream(self, event: RequestReceived) -> None:
        number = event.stream_id or 0
        if self._is_draining or len(self._tasks) >= MAX_STREAMS or self._transport is None:
            self.reset(number, NOT_PROCESSED)
            return
        self._last_stream = number
        if not self._has_request:
            self._has_request = True
            if self._header_timer is not None:
                self._header_timer.cancel()
        headers = cast(Iterable[tuple[bytes, bytes]], event.headers or ())
        stream = self._streams[number] = HTTP2Stream(
            self, number, headers, has_body=event.stream_ended is None
        )
        task = self._loop.create_task(stream.run())
        stream.task = task
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("request failed", exc_info=error)
        if not self._tasks:
            self._idle_since = self._loop.time()

    def _stream_reset(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        self.forget(number)
        stream.close()
        if stream.task is None or stream.task.done():
            return
        stream.task.cancel()
        now, resets = self._loop.time(), self._resets
        resets.append(now)
        if len(resets) > MAX_RESETS and now - resets.popleft() < RESET_PERIOD:
            logger.warning(
                "closed HTTP/2 connection", extra={"reason": "too many reset streams", "resets": MAX_RESETS}
            )
            self._terminate(ErrorCodes.ENHANCE_YOUR_CALM)

    # Called by streams.

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def acknowledge(self, size: int, number: int) -> None:
        """Let the client send `size` more bytes of a body."""
        if size and self.is_open:
            self._send(lambda: self._h2.acknowledge_received_data(size, number))

    def send_headers(self, number: int, headers: list[tuple[bytes, bytes]], *, end: bool = False) -> None:
        """Send the headers of a response with the next `flush`; raises `ConnectionResetError`."""
        if not self._send(lambda: self._h2.send_headers(number, headers, end_stream=end)):
            raise ConnectionResetError("stream is closed")

    def window(self, number: int) -> int:
        """Return the number of bytes that a client accepts now; raises `ConnectionResetError`."""
        try:
            return self._h2.local_flow_control_window(number)
        except H2Error as error:
            raise ConnectionResetError(str(error)) from None

    def send_data(self, number: int, data: bytes | memoryview, *, end: bool = False) -> int:
        """Frame bytes of a response for the next `flush`, as many as the client accepts, up to a limit.

        Returns how many. `end` ends the stream after the last byte.
        """
        connection = self._h2
        size = len(data)
        available = min(self.window(number), size if size <= _FRAME_BATCH else _FRAME_BATCH)
        frame = connection.max_outbound_frame_size
        try:
            if size == available <= frame:
                connection.send_data(number, data, end_stream=end)
                return size
            view = memoryview(data)
            for start in range(0, available, frame):
                stop = min(start + frame, available)
                connection.send_data(number, view[start:stop], end_stream=end and stop == size)
        except H2Error as error:
            raise ConnectionResetError(str(error)) from None
        return available

    def end(self, number: int) -> None:
        """End a response."""
        self._send(lambda: self._h2.end_stream(number))

    def reset(self, number: int, code: ErrorCodes) -> None:
        """End a stream with an error code; `NO_ERROR` after a response to a request that was not read."""
        self._send(lambda: self._h2.reset_stream(number, code))
        self.flush()

    def _send(self, send: Callable[[], None]) -> bool:
        """Send frames of a stream; false if the stream or the connection is closed."""
        if not self.is_open:
            return False
        try:
            send()
        except H2Error as error:
            logger.debug("HTTP/2 stream is closed", extra={"error": str(error)})
            return False
        return True

    def forget(self, number: int) -> None:
        """Remove a stream that has ended."""
        self._streams.pop(number, None)
        if self.server.server.stopping:
            self.drain()

    def flush(self) -> bool:
        """Write all frames to the socket; returns whether there were any."""
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)
        return bool(data)

    async def wait_writable(self, timeout: float | None) -> None:
        """Wait until the client reads; disconnects it after `timeout` seconds."""
        if not self.is_paused:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._writable.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
            raise ConnectionResetError("client does not read") from None

    # The end of a connection.

    def drain(self) -> None:
        """Announce the end of the connection (GOAWAY): open streams finish, new ones are rejected."""
        if self._is_draining or not self.is_open:
            return
        self._is_draining = True
        # h2 sends nothing after its own GOAWAY.
        frame = GoAwayFrame(0, last_stream_id=self._last_stream, error_code=ErrorCodes.NO_ERROR)
        self.flush()
        assert self._transport is not None
        self._transport.write(frame.serialize())

    async def shutdown(self, timeout: float) -> None:
        """Let open requests finish for up to `timeout` seconds, then close the connection."""
        self.drain()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        for task in self._tasks:
            task.cancel()
        self._close()

    def _terminate(self, code: ErrorCodes) -> None:
        """Close the connection with an error code."""
        if self.is_open:
            self._h2.close_connection(code, last_stream_id=self._last_stream)
        self._end()

    def _end(self) -> None:
        """Send what h2 has left, such as GOAWAY, cancel all requests, close."""
        self.flush()
        for task in self._tasks:
            task.cancel()
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _close_without_request(self) -> None:
        self.drain()
        self._close()

    def _check_alive(self) -> None:
        """Ping a silent client, disconnect one that does not respond, close an idle connection."""
        received, self._bytes_received = self._bytes_received, False
        if received:
            self._is_pinged = False
        if self._transport is None:
            return
        if not self._tasks and self._loop.time() - self._idle_since >= IDLE_TIMEOUT:
            self._close_without_request()
            return
        if self.is_paused:
            if self._loop.time() - self._paused_since >= self.server.stall_timeout:
                self._transport.abort()
                return
        elif self._tasks and not received:
            if self._is_pinged:
                self._transport.abort()
                return
            self._is_pinged = True
            self._send(lambda: self._h2.ping(b"keepaliv"))
            self.flush()
        self._timer = self._loop.call_later(PING_INTERVAL, self._check_alive)
