"""`ContainerProcess`: the process of one run of a container, its output, and commands beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubewright.workloads.nodes.container_log import ContainerLog
from kubewright.workloads.nodes.objects import LoopClock, Object
from kubewright.workloads.nodes.runtime import ContainerExit, ProcessStreams

from .launch import Launched, LaunchSpec, spawn

CHUNK: Final = 64 * 1024
DRAIN_SECONDS: Final = 1.0
"""How long output is read after the end of a process whose children still have its streams."""
MESSAGE_BYTES: Final = 4096
FALLBACK_LINES: Final = 80
FALLBACK_BYTES: Final = 2048
_MAX_LINE: Final = 16 * 1024


class LineWriter:
    """Writes the lines of a stream to a log; a line is written when it is complete."""

    def __init__(self, log: ContainerLog, clock: LoopClock, stream: str) -> None:
        self._log, self._clock, self._stream = log, clock, stream
        self._partial = b""

    def write(self, data: bytes) -> None:
        """Add output."""
        lines, newline, rest = (self._partial + data).rpartition(b"\n")
        if newline:
            self._log.write(lines + b"\n", self._clock.date(), self._stream)
        if len(rest) > _MAX_LINE:
            self._log.write(rest, self._clock.date(), self._stream)
            rest = b""
        self._partial = rest

    def close(self) -> None:
        """Write the last line, if it has no end."""
        if self._partial:
            self._log.write(self._partial, self._clock.date(), self._stream)
            self._partial = b""


Output = Callable[[bytes], Awaitable[None]]


class ContainerProcess:
    """The main process of a container. `run` returns how it ended."""

    def __init__(
        self, spec: LaunchSpec, container: Object, log: ContainerLog, clock: LoopClock, message_file: Path
    ) -> None:
        self.spec = spec
        self.container = container
        self.log = log
        self._clock = clock
        self._message_file = message_file
        self._launched: Launched | None = None
        self._input: int | None = None
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self.started_at = asyncio.get_running_loop().time()
        self.started = asyncio.Event()
        """Set when the command is executed, or could not be."""
        self.ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._launched.process.pid if self._launched is not None else 0

    async def run(self) -> ContainerExit:
        """Start the process, read its output until it ends, and return how it ended."""
        try:
            return await self._run()
        finally:
            self.started.set()
            self.ended.set()
            for listener in self._listeners:
                listener.put_nowait(b"")

    async def _run(self) -> ContainerExit:
        tty = bool(self.container.get("tty"))
        spec = replace(self.spec, tty=tty)
        readers: list[tuple[int, str]] = []
        child: list[int] = []
        if tty:
            master, slave = os.openpty()
            child, readers = [slave, slave, slave], [(master, "stdout")]
            self._input = os.dup(master)
        else:
            out_read, out_write = os.pipe()
            error_read, error_write = os.pipe()
            readers = [(out_read, "stdout"), (error_read, "stderr")]
            if self.container.get("stdin"):
                in_read, self._input = os.pipe()
            else:
                in_read = os.open(os.devnull, os.O_RDONLY)
            child = [in_read, out_write, error_write]
        try:
            self._launched = launched = await spawn(spec, stdin=child[0], stdout=child[1], stderr=child[2])
        except BaseException:
            for descriptor, _ in readers:
                os.close(descriptor)
            raise
        finally:
            for descriptor in set(child):
                os.close(descriptor)
        pumps = [asyncio.create_task(self._pump(*each)) for each in readers]
        waiting = asyncio.create_task(launched.process.wait())
        try:
            await launched.error
            self.started.set()
            code = await asyncio.shield(waiting)
        finally:
            self.signal(signal.SIGKILL, group=True)
            code = await waiting
            _, late = await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
            for pump in late:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            if self._input is not None:
                os.close(self._input)
                self._input = None
        error = launched.error.result()
        if error:
            message = f"failed to start container process: {error}"
            return ContainerExit(128, "StartError", message)
        code = code if code >= 0 else 128 - code
        return ContainerExit(code, "", self._message(code))

    async def _pump(self, descriptor: int, stream: str) -> None:
        lines = LineWriter(self.log, self._clock, stream)
        async for data in read_descriptor(descriptor):
            lines.write(data)
            for listener in self._listeners:
                listener.put_nowait(data)
        lines.close()

    def _message(self, code: int) -> str:
        """Return the termination message: a file, or the end of the log after an error."""
        with contextlib.suppress(OSError):
            text = self._message_file.read_bytes()[:MESSAGE_BYTES].decode(errors="replace")
            if text:
                return text
        if code != 0 and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            lines = b"".join(line + b"\n" for line in self.log.last_lines(FALLBACK_LINES))
            return lines[-FALLBACK_BYTES:].decode(errors="replace")
        return ""

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the process, or to all processes of its group; ignored after the end."""
        # The number of a process that has ended may be that of another one.
        if self._launched is None or self.ended.is_set():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(self.pid, number)
            elif self._launched.process.returncode is None:
                os.kill(self.pid, number)

    async def attach(self, streams: ProcessStreams) -> int:
        """Copy output and input until the container or the client ends."""
        listener: asyncio.Queue[bytes] = asyncio.Queue()
        self._listeners.add(listener)
        tasks = [asyncio.create_task(self._feed(streams))]
        if self.container.get("tty") and self._input is not None:
            tasks.append(asyncio.create_task(resize_terminal(self._input, streams)))
        try:
            while data := await listener.get():
                await streams.write_stdout(data)
        finally:
            self._listeners.discard(listener)
            await _cancel(*tasks)
        return 0

    async def _feed(self, streams: ProcessStreams) -> None:
        while (data := await streams.read_stdin()) and self._input is not None:
            await write_descriptor(self._input, data)
        if self._input is not None and self.container.get("stdinOnce") and not self.container.get("tty"):
            os.close(self._input)
            self._input = None

    async def exec(self, command: list[str], streams: ProcessStreams) -> int:
        """Run a command in the environment of the container; return its exit code."""
        await self.started.wait()
        spec = replace(self.spec, command=command, tty=streams.tty)
        if spec.namespaces:
            spec.join = self.pid
        return await run_command(spec, streams)


async def run_command(spec: LaunchSpec, streams: ProcessStreams) -> int:
    """Run a command with streams; its session is killed when the caller is cancelled."""
    if spec.tty:
        master, slave = os.openpty()
        child = [slave, slave, slave]
        outputs: list[tuple[int, Output]] = [(master, streams.write_stdout)]
        own_input = os.dup(master)
    else:
        in_read, own_input = os.pipe()
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        child = [in_read, out_write, error_write]
        outputs = [(out_read, streams.write_stdout), (error_read, streams.write_stderr)]
    try:
        launched = await spawn(spec, stdin=child[0], stdout=child[1], stderr=child[2])
    finally:
        for descriptor in set(child):
            os.close(descriptor)

    async def feed() -> None:
        nonlocal own_input
        while data := await streams.read_stdin():
            await write_descriptor(own_input, data)
        if spec.tty:
            await write_descriptor(own_input, b"\x04")
        else:
            os.close(own_input)
            own_input = -1

    async def copy(descriptor: int, write: Output) -> None:
        async for data in read_descriptor(descriptor):
            await write(data)

    tasks = [asyncio.create_task(feed())]
    if spec.tty:
        tasks.append(asyncio.create_task(resize_terminal(own_input, streams)))
    copying = [asyncio.create_task(copy(*each)) for each in outputs]
    process = launched.process
    try:
        if error := await launched.error:
            raise RuntimeExecError(error)
        code = await process.wait()
        await asyncio.wait(copying, timeout=DRAIN_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await _cancel(*tasks, *copying)
        if own_input >= 0:
            os.close(own_input)
    return code if code >= 0 else 128 - code


async def resize_terminal(descriptor: int, streams: ProcessStreams) -> None:
    """Set the size of a terminal to that of the client, whenever it changes."""
    while (size := await streams.read_size()) is not None:
        with contextlib.suppress(OSError):
            termios.tcsetwinsize(descriptor, (size.rows, size.columns))


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class RuntimeExecError(Exception):
    """A command could not be executed in a container; the message is that of the launcher."""


async def read_descriptor(descriptor: int) -> AsyncIterator[bytes]:
    """Yield what a pipe or terminal receives, and close it at its end."""
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        # A terminal reports the end of its last process as an error.
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                yield data
    finally:
        transport.close()


async def write_descriptor(descriptor: int, data: bytes) -> None:
    """Write to a pipe or terminal without blocking the loop; data for an ended process is dropped."""
    os.set_blocking(descriptor, False)
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await asyncio.sleep(0.005)
        except OSError:
            return


__all__ = ["ContainerProcess", "RuntimeExecError", "run_command"]
