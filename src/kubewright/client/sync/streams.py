"""Watches, logs, commands and port forwards of a `SyncClient`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Generic, Self, TypeVar

from kubewright.client.kind_types import ObjectT
from kubewright.client.listwatch.watch import Watch, WatchEvent
from kubewright.client.streams.exec import ExecCommand, ExecResult, RemoteProcess
from kubewright.client.streams.pod_log import PodLog
from kubewright.client.streams.port_forward import PortForward

from .event_loop_thread import EventLoopThread

ResultT = TypeVar("ResultT")


async def as_coroutine(awaitable: Awaitable[ResultT]) -> ResultT:
    """Await an awaitable that is not a coroutine."""
    return await awaitable


class SyncWatch(Generic[ObjectT]):
    """Events of a collection: `for event in watch`. Close it, or use it in `with`."""

    def __init__(self, watch: Watch[ObjectT], thread: EventLoopThread) -> None:
        self._watch = watch
        self._thread = thread

    @property
    def resource_version(self) -> str:
        """The last resource version received."""
        return self._watch.resource_version

    def __iter__(self) -> Iterator[WatchEvent[ObjectT]]:
        return self._thread.iterate(self._watch)

    def close(self) -> None:
        """Stop watching."""
        self._thread.run(self._watch.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class SyncPodLog:
    """A log: iterate it for lines as they are written, or `read()` the text."""

    def __init__(self, log: PodLog, thread: EventLoopThread) -> None:
        self._log = log
        self._thread = thread

    def __iter__(self) -> Iterator[str]:
        return self._thread.iterate(self._log)

    def read(self) -> str:
        """Return the whole text; with `follow`, wait for the end of the container."""
        return self._thread.run(as_coroutine(self._log))


class SyncRemoteProcess:
    """A running command in a container. Iterate it for `("stdout" | "stderr", bytes)`."""

    def __init__(self, process: RemoteProcess, thread: EventLoopThread) -> None:
        self._process = process
        self._thread = thread

    @property
    def exit_code(self) -> int | None:
        """The exit code; `None` while the command runs."""
        return self._process.exit_code

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return self._thread.iterate(self._process)

    def write(self, data: bytes) -> None:
        """Write to standard input."""
        self._thread.run(self._process.write(data))

    def close_stdin(self) -> None:
        """Close standard input."""
        self._thread.run(self._process.close_stdin())

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        self._thread.run(self._process.resize(width, height))

    def communicate(self, data: bytes | None = None) -> ExecResult:
        """Write the input, if any, and collect the output until the command ends."""
        return self._thread.run(self._process.communicate(data))


class SyncExecCommand:
    """A command to run: `run()` returns its result, `with` opens a session."""

    def __init__(self, command: ExecCommand, thread: EventLoopThread) -> None:
        self._command = command
        self._thread = thread

    def run(self) -> ExecResult:
        """Run the command and return its output and exit code."""
        return self._thread.run(as_coroutine(self._command))

    def __enter__(self) -> SyncRemoteProcess:
        return SyncRemoteProcess(self._thread.run(self._command.__aenter__()), self._thread)

    def __exit__(self, *exc: object) -> None:
        self._thread.run(self._command.__aexit__(*exc))


class SyncPortForward:
    """A local listener that forwards to a port of a pod; it is open within `with`."""

    def __init__(self, forward: PortForward, thread: EventLoopThread) -> None:
        self._forward = forward
        self._thread = thread

    @property
    def port(self) -> int:
        """The port of the pod."""
        return self._forward.port

    @property
    def local_port(self) -> int:
        """The local port."""
        return self._forward.local_port

    def __enter__(self) -> Self:
        self._thread.run(self._forward.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.run(self._forward.__aexit__(*exc))
