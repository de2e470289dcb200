"""What the generated blocking clients share: the thread, derived clients, methods with a form of their own.

`sync_client` is written by `tools/generate_sync_client.py` from the methods of `Client`.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Self, TypeVar, Unpack, overload

from kubewright.api.unstructured import Unstructured
from kubewright.client.arguments import ConnectOptions, ListArguments
from kubewright.client.client import Client
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.kind_types import KindOf, ObjectT
from kubewright.client.streams.exec import ExecResult
from kubewright.client.verbs.pods import PodRef
from kubewright.client.verbs.subresource import SubresourceClient

from .event_loop_thread import EventLoopThread
from .streams import SyncExecCommand

ResultT = TypeVar("ResultT")


class BlockingVerbs:
    """A client in a background thread."""

    def __init__(self, client: Client, thread: EventLoopThread | None = None) -> None:
        self.async_client = client
        """The client that runs in the background thread; `run` awaits its coroutines."""
        self._thread = thread or EventLoopThread()
        self._owns_thread = thread is None

    @classmethod
    def connect(
        cls,
        kubeconfig: str | os.PathLike[str] | ClusterConfig | None = None,
        **options: Unpack[ConnectOptions],
    ) -> Self:
        """Return a client for the cluster that kubectl would use, with the options of `Client.connect`."""
        return cls(Client.connect(kubeconfig, **options))

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine of `async_client` in the background thread and return its result."""
        return self._thread.run(coroutine)

    def close(self) -> None:
        """Close the connections and end the background thread."""
        self._thread.run(self.async_client.aclose())
        if self._owns_thread:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _derive(self, client: Client) -> Self:
        return type(self)(client, self._thread)

    @overload
    def iterate(self, kind: KindOf[ObjectT], **arguments: Unpack[ListArguments]) -> Iterator[ObjectT]: ...
    @overload
    def iterate(self, kind: str, **arguments: Unpack[ListArguments]) -> Iterator[Unstructured]: ...
    def iterate(self, kind: Any, **arguments: Unpack[ListArguments]) -> Iterator[Any]:
        """Yield objects page by page, for collections that are too large for a list."""
        return self._thread.iterate(self.async_client.list(kind, **arguments))

    def exec(
        self,
        pod: PodRef,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        input: bytes | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command in a container and return its output and exit code."""
        inner = self.async_client.exec(
            pod, command, namespace=namespace, container=container, input=input, check=check
        )
        return SyncExecCommand(inner, self._thread).run()

    def open_exec(
        self,
        pod: PodRef,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bool = True,
        tty: bool = False,
    ) -> SyncExecCommand:
        """Start a command in a container to interact with: `with client.open_exec(pod, ["sh"]) as shell`."""
        inner = self.async_client.exec(
            pod, command, namespace=namespace, container=container, stdin=stdin, tty=tty
        )
        return SyncExecCommand(inner, self._thread)


class BlockingSubresource:
    """A client of a subresource in a background thread."""

    def __init__(self, client: SubresourceClient, thread: EventLoopThread) -> None:
        self._client = client
        self.run = thread.run
