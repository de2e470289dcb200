"""Exec, attach and port-forward over WebSockets and SPDY.

A handler (`ProcessHandler`, `PortOpener`) does not depend on the protocol: `run_process` calls it with
standard streams, `run_ports` with one byte stream per connection.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kubewright.api.encoding import codec
from kubewright.apiserver.http.messages import Tunnel, WebSocket

from .contract import ByteStream, ProcessStreams, TerminalSize
from .spdy import SpdyError, SpdySession, SpdyStream

BASE64_PROTOCOLS: Final = ("v4.base64.channel.k8s.io", "base64.channel.k8s.io")
"""Protocols for clients that cannot send or receive binary messages."""
PROCESS_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
)
PORT_CHANNEL_PROTOCOLS: Final = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
STATUS_PROTOCOLS: Final = PROCESS_PROTOCOLS[:3]
"""Protocols whose error channel has a Status; the first protocol has only messages of failures."""
SPDY_PROCESS_PROTOCOLS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io")
PORT_PROTOCOL: Final = "portforward.k8s.io"
PORT_TUNNEL_PROTOCOL: Final = f"SPDY/3.1+{PORT_PROTOCOL}"
STREAM_TIMEOUT: Final = 30.0
"""Seconds in which a client has to open the streams of a SPDY session."""

FAILURE: Final = "error executing command in container"
"""Beginning of the message about a command that could not run, as kubelets send it."""

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255

ProcessHandler = Callable[[ProcessStreams], Awaitable[int]]
PortOpener = Callable[[int, ByteStream], Awaitable[None]]
_DISCONNECTED: Final = (ConnectionError, SpdyError, RuntimeError)


def exit_status(code: int) -> bytes:
    """Return the Status of the error channel for an exit code."""
    if code == 0:
        return codec.encode({"metadata": {}, "status": "Success"})
    return codec.encode(
        {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    )


def failure_status(message: str) -> bytes:
    """Return the Status of the error channel for a command that could not run."""
    return codec.encode(
        {
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
            "message": f"Internal error occurred: {message}",
            "details": {"causes": [{"message": message}]},
            "code": 500,
        }
    )


def parse_size(data: bytes) -> TerminalSize | None:
    """Parse the last terminal size of a resize channel."""
    try:
        size = codec.loads(data.strip().rpartition(b"\n")[2])
        return TerminalSize(int(size["Width"]), int(size["Height"]))
    except (ValueError, KeyError, TypeError):
        return None


async def _status_of(handler: ProcessHandler, streams: ProcessStreams, failure: str) -> bytes:
    try:
        return exit_status(await handler(streams))
    except _DISCONNECTED:
        raise
    except Exception as error:
        return failure_status(f"{failure}: {error}")


class _Base64Socket:
    """A WebSocket whose messages are text: the digit of the channel, then base64."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.protocol = socket.protocol

    async def receive(self) -> bytes | str | None:
        message = await self._socket.receive()
        if not message:
            return message
        data = message.encode() if isinstance(message, str) else message
        try:
            return bytes([data[0] - ord("0")]) + base64.b64decode(data[1:], validate=True)
        except ValueError:
            return None  # As kube-apiserver, end the connection of a client that does not keep the protocol.

    async def send(self, data: bytes | str) -> None:
        raw = data.encode() if isinstance(data, str) else data
        await self._socket.send(chr(ord("0") + raw[0]) + base64.b64encode(raw[1:]).decode())

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._socket.close(code, reason)


def _channel_socket(socket: WebSocket) -> WebSocket:
    """Return a WebSocket of binary messages, whatever the protocol."""
    return _Base64Socket(socket) if socket.protocol in BASE64_PROTOCOLS else socket


class _WebSocketProcess:
    """Standard streams as channels of a WebSocket."""

    def __init__(self, socket: WebSocket, *, tty: bool, stdin: bool) -> None:
        self.tty = tty
        self._socket = socket
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._sizes: asyncio.Queue[bytes] = asyncio.Queue()
        if not stdin:
            self._input.put_nowait(b"")

    async def read(self) -> None:
        """Read messages of the client until it closes the connection."""
        while (message := await self._socket.receive()) is not None:
            data = message.encode() if isinstance(message, str) else message
            if len(data) > 1 and data[0] == _STDIN:
                self._input.put_nowait(data[1:])
            elif data[:2] == bytes([_CLOSE, _STDIN]):
                self._input.put_nowait(b"")
            elif data[:1] == bytes([_RESIZE]):
                self._sizes.put_nowait(data[1:])

    async def read_stdin(self) -> bytes:
        data = await self._input.get()
        if not data:
            self._input.put_nowait(b"")
        return data

    async def read_size(self) -> TerminalSize | None:
        return parse_size(await self._sizes.get()) if self.tty else None

    async def write_stdout(self, data: bytes) -> None:
        await self._socket.send(bytes([_STDOUT]) + data)

    async def write_stderr(self, data: bytes) -> None:
        await self._socket.send(bytes([_STDOUT if self.tty else _STDERR]) + data)


async def run_process_on_websocket(
    socket: WebSocket, handler: ProcessHandler, *, tty: bool, stdin: bool, failure: str = FAILURE
) -> None:
    """Run a command over a WebSocket; it is cancelled when the client disconnects.

    `failure` begins the message about an exception of the handler.
    """
    socket = _channel_socket(socket)
    process = _WebSocketProcess(socket, tty=tty, stdin=stdin)
    running = asyncio.ensure_future(_status_of(handler, process, failure))
    reading = asyncio.create_task(process.read())
    try:
        await asyncio.wait([running, reading], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            status = running.result()
            if socket.protocol not in STATUS_PROTOCOLS:
                status = str(codec.decode(status, dict).get("message") or "").encode()
            if status:
                await socket.send(bytes([_ERROR]) + status)
    except _DISCONNECTED:
        pass
    finally:
        await _cancel(running, reading)
        with contextlib.suppress(*_DISCONNECTED):
            await socket.close()


class _SpdyProcess:
    """Standard streams as streams of a SPDY session."""

    def __init__(self, streams: dict[str, SpdyStream], *, tty: bool) -> None:
        self.tty = tty
        self._streams = streams

    async def read_stdin(self) -> bytes:
        stream = self._streams.get("stdin")
        return await stream.receive() if stream is not None else b""

    async def read_size(self) -> TerminalSize | None:
        stream = self._streams.get("resize")
        return parse_size(await stream.receive()) if stream is not None else None

    async def write_stdout(self, data: bytes) -> None:
        await self._write("stdout", data)

    async def write_stderr(self, data: bytes) -> None:
        await self._write("stdout" if self.tty else "stderr", data)

    async def _write(self, name: str, data: bytes) -> None:
        stream = self._streams.get(name)
        if stream is not None:
            await stream.send(data)


async def run_process_on_spdy(
    tunnel: Tunnel,
    handler: ProcessHandler,
    *,
    expected: frozenset[str],
    tty: bool,
    failure: str = FAILURE,
) -> None:
    """Run a command over a SPDY connection, after the client has opened the expected streams."""
    streams: dict[str, SpdyStream] = {}
    complete = asyncio.Event()

    async def add(stream: SpdyStream) -> None:
        streams[stream.headers.get("streamtype", "")] = stream
        if expected <= streams.keys():
            complete.set()

    session = asyncio.create_task(SpdySession(tunnel, add).run())
    running: asyncio.Future[bytes] | None = None
    try:
        async with asyncio.timeout(STREAM_TIMEOUT):
            await complete.wait()
        running = asyncio.ensure_future(_status_of(handler, _SpdyProcess(streams, tty=tty), failure))
        await asyncio.wait([running, session], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await streams["error"].send(running.result())
            for stream in streams.values():
                await stream.close()
            # The client closes the connection after it has read all streams.
            async with asyncio.timeout(STREAM_TIMEOUT):
                await asyncio.wait([session])
    except (TimeoutError, *_DISCONNECTED):
        pass
    finally:
        await _cancel(session, *([running] if running is not None else []))


class _ChannelPipe:
    """A byte stream as one channel of a WebSocket."""

    def __init__(self, socket: WebSocket, channel: int) -> None:
        self._socket = socket
        self._channel = channel
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> bytes:
        data = await self.received.get()
        if not data:
            self.received.put_nowait(b"")
        return data

    async def send(self, data: bytes) -> None:
        await self._socket.send(bytes([self._channel]) + data)


async def run_ports_on_websocket(socket: WebSocket, ports: list[int], opener: PortOpener) -> None:
    """Forward ports: two channels per port, for data and errors, which begin with the port number."""
    socket = _channel_socket(socket)
    pipes = {2 * index: _ChannelPipe(socket, 2 * index) for index in range(len(ports))}
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await socket.send(bytes([channel]) + struct.pack("<H", port))

    async def serve(index: int, port: int) -> None:
        try:
            await opener(port, pipes[2 * index])
        except (ConnectionError, OSError) as error:
            with contextlib.suppress(*_DISCONNECTED):
                await socket.send(bytes([2 * index + 1]) + str(error).encode())

    async def read() -> None:
        while (message := await socket.receive()) is not None:
            data = message.encode() if isinstance(message, str) else message
            if data and data[0] in pipes:
                pipes[data[0]].received.put_nowait(data[1:])
        for pipe in pipes.values():
            pipe.received.put_nowait(b"")

    async def serve_all() -> None:
        await asyncio.gather(*(serve(index, port) for index, port in enumerate(ports)))

    serving = asyncio.create_task(serve_all())
    reading = asyncio.create_task(read())
    try:
        await asyncio.wait([serving, reading], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel(serving, reading)
        with contextlib.suppress(*_DISCONNECTED):
            await socket.close()


class WebSocketTunnel:
    """SPDY bytes in the binary messages of a WebSocket, as `kubectl port-forward` sends them."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def receive(self) -> bytes:
        """Return received bytes; empty at the end."""
        while (message := await self._socket.receive()) is not None:
            data = message.encode() if isinstance(message, str) else message
            if data:
                return data
        return b""

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await self._socket.send(data)


async def run_ports_on_spdy(tunnel: Tunnel | WebSocketTunnel, opener: PortOpener) -> None:
    """Forward ports over a SPDY connection: each connection is an error and a data stream."""
    waiting: dict[str, dict[str, SpdyStream]] = {}
    tasks: set[asyncio.Task[None]] = set()

    async def forward(pair: dict[str, SpdyStream]) -> None:
        data, error = pair["data"], pair["error"]
        try:
            port = int(data.headers.get("port") or 0)
            await opener(port, data)
        except (ConnectionError, OSError, ValueError) as failure:
            with contextlib.suppress(*_DISCONNECTED):
                await error.send(f"error forwarding port {data.headers.get('port')}: {failure}".encode())
        with contextlib.suppress(*_DISCONNECTED):
            await error.close()
            await data.close()

    async def add(stream: SpdyStream) -> None:
        pair = waiting.setdefault(stream.headers.get("requestid", ""), {})
        pair[stream.headers.get("streamtype", "")] = stream
        if {"data", "error"} <= pair.keys():
            del waiting[stream.headers.get("requestid", "")]
            task = asyncio.create_task(forward(pair))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    try:
        await SpdySession(tunnel, add).run()
    except _DISCONNECTED:
        pass
    finally:
        await _cancel(*tasks)


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
