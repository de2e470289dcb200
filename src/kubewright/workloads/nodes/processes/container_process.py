"""`ContainerProcess`: the process of one run of a container, its streams, and commands beside it.

Its parent is a supervisor, which writes the output to the log files; output passes through this process
only for clients that are attached, and for commands of exec.
"""

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

from kubewright.apiserver.streams.contract import ProcessStreams
from kubewright.workloads.nodes.containers.container_log import ContainerLog
from kubewright.workloads.nodes.containers.runtime import ContainerExit
from kubewright.workloads.nodes.objects import Object

from .launch import LaunchSpec, SupervisorSpec
from .supervisor_client import SupervisorClient

CHUNK: Final = 64 * 1024
DRAIN_SECONDS: Final = 1.0
"""How long output is read after the end of a process whose children still have its streams."""
MESSAGE_BYTES: Final = 4096
FALLBACK_LINES: Final = 80
FALLBACK_BYTES: Final = 2048


Output = Callable[[bytes], Awaitable[None]]


class ContainerProcess:
    """The main process of a container. `run` returns how it ended."""

    def __init__(
        self, spec: SupervisorSpec, container: Object, log: ContainerLog, message_file: Path
    ) -> None:
        self.spec = spec
        self.container = container
        self.log = log
        self._message_file = message_file
        self._supervisor = SupervisorClient()
        self._input: int | None = None
        self.started_at = asyncio.get_running_loop().time()
        self.started = asyncio.Event()
        """Set when the command is executed, or could not be."""
        self.ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._supervisor.main.pid

    @property
    def supervisor_pid(self) -> int:
        """The process id of the supervisor, the ancestor of all processes; 0 before the start."""
        process = self._supervisor.process
        return process.pid if process is not None else 0

    @property
    def is_contained(self) -> bool:
        """Whether, after the end, the supervisor has reported that no process is left."""
        return self._supervisor.has_reported

    async def run(self) -> ContainerExit:
        """Start the process, and return how it ended, after all processes of the container have ended."""
        try:
            return await self._run()
        finally:
            self._supervisor.close()
            self.started.set()
            self.ended.set()

    async def _run(self) -> ContainerExit:
        tty = bool(self.container.get("tty"))
        spec = replace(self.spec, command=replace(self.spec.command, tty=tty))
        opened: list[int] = []
        if tty:
            spec.terminal, slave = os.openpty()
            opened = [spec.terminal, slave]
            self._input = os.dup(spec.terminal)
        elif self.container.get("stdin"):
            slave, self._input = os.pipe()
            opened = [slave]
        else:
            slave = os.open(os.devnull, os.O_RDONLY)
            opened = [slave]
        supervisor = self._supervisor
        try:
            try:
                await supervisor.start(spec, slave)
            finally:
                for descriptor in opened:
                    os.close(descriptor)
            error = await asyncio.shield(supervisor.main.error)
            self.started.set()
            code = await supervisor.wait()
        except asyncio.CancelledError:
            if supervisor.process is not None:
                supervisor.kill()
                await supervisor.wait()
            raise
        finally:
            if self._input is not None:
                os.close(self._input)
                self._input = None
        if error:
            message = f"failed to start container process: {error}"
            return ContainerExit(128, "StartError", message)
        code = code if code >= 0 else 128 - code
        return ContainerExit(code, "", self._message(code))

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

    def signal(self, number: int) -> None:
        """Send a signal to the process; ignored after the end."""
        self._supervisor.signal(number)

    def kill(self) -> None:
        """Kill all processes of the container; ignored after the end."""
        self._supervisor.kill()

    async def attach(self, streams: ProcessStreams) -> int:
        """Copy output and input until the container or the client ends."""
        await self.started.wait()
        output = self._supervisor.attach()
        tasks = [asyncio.create_task(self._feed(streams))]
        if self.container.get("tty") and self._input is not None:
            tasks.append(asyncio.create_task(resize_terminal(self._input, streams)))
        try:
            async for data in read_descriptor(output):
                await streams.write_stdout(data)
        finally:
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
        spec = replace(self.spec.command, command=command, tty=streams.tty)
        if spec.namespaces:
            spec.join = self.pid
        return await run_command(self._supervisor, spec, streams)


async def run_command(supervisor: SupervisorClient, spec: LaunchSpec, streams: ProcessStreams) -> int:
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
        started = supervisor.execute(spec, child)
    except ConnectionError:
        for descriptor in {own_input, *(each for each, _ in outputs)}:
            os.close(descriptor)
        raise
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
    try:
        if error := await asyncio.shield(started.error):
            raise RuntimeExecError(error)
        code = await asyncio.shield(started.exit_code)
        await asyncio.wait(copying, timeout=DRAIN_SECONDS)
    finally:
        supervisor.signal(signal.SIGKILL, started, group=True)
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
