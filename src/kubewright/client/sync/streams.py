"""Watches, logs, commands, port forwards and subresources of a `SyncClient`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Generic, Self, TypeVar, overload

from kubewright.api.unstructured import Unstructured
from kubewright.client.kind_types import ObjectT
from kubewright.client.listwatch.watch import Watch, WatchEvent
from kubewright.client.patches import Patch
from kubewright.client.streams.exec import ExecCommand, ExecResult, RemoteProcess
from kubewright.client.streams.pod_log import PodLog
from kubewright.client.streams.port_forward import PortForward
from kubewright.client.verbs.subresource import SubresourceClient, SubresourceT

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


class SyncSubresourceClient:
    """Verbs on one subresource of one object. `as_` is the class that a response is decoded as."""

    def __init__(self, client: SubresourceClient, thread: EventLoopThread) -> None:
        self._client = client
        self._run: Callable[[Coroutine[Any, Any, Any]], Any] = thread.run

    @overload
    def get(self) -> Unstructured: ...
    @overload
    def get(self, as_: type[SubresourceT]) -> SubresourceT: ...
    def get(self, as_: type[Any] = Unstructured) -> Any:
        """Read the subresource."""
        return self._run(self._client.get(as_))

    def create(self, body: SubresourceT, *, dry_run: bool = False) -> SubresourceT:
        """Post an object to the subresource and return the response, of the same class."""
        created: SubresourceT = self._run(self._client.create(body, dry_run=dry_run))
        return created

    def update(self, body: SubresourceT, *, dry_run: bool = False) -> SubresourceT:
        """Replace the subresource."""
        updated: SubresourceT = self._run(self._client.update(body, dry_run=dry_run))
        return updated

    @overload
    def patch(self, patch: Patch, *, dry_run: bool = False) -> Unstructured: ...
    @overload
    def patch(self, patch: Patch, as_: type[SubresourceT], *, dry_run: bool = False) -> SubresourceT: ...
    def patch(self, patch: Patch, as_: type[Any] = Unstructured, *, dry_run: bool = False) -> Any:
        """Patch the subresource."""
        return self._run(self._client.patch(patch, as_, dry_run=dry_run))


__all__ = [
    "SyncExecCommand",
    "SyncPodLog",
    "SyncPortForward",
    "SyncRemoteProcess",
    "SyncSubresourceClient",
    "SyncWatch",
]
