"""`SyncClient`: the verbs of `Client` for programs without an event loop.

    with SyncClient.connect() as client:
        web = client.get(Deployment, "web")
        pods = client.list(Pod, labels="app=web")         # a list: len(pods), pods[0]
        for event in client.watch(Pod): ...
        with client.port_forward("web-0", 8080) as forward: ...

Each verb runs the verb of `Client` with the same name and arguments in a background thread and waits for it.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from kubewright.api.meta import MetaObject, PartialObjectMetadata
from kubewright.api.unstructured import Unstructured
from kubewright.client.arguments import (
    ApplyArguments,
    ConnectOptions,
    DeleteArguments,
    FieldValidation,
    GetArguments,
    ListArguments,
    PatchArguments,
    Propagation,
    WatchArguments,
    WriteArguments,
)
from kubewright.client.client import Client
from kubewright.client.config.cluster_config import ClusterConfig
from kubewright.client.kind_types import (
    AnyKind,
    MetadataKind,
    ObjectOrKind,
    TypedT,
    UnstructuredKind,
)
from kubewright.client.listwatch.pager import ListResult
from kubewright.client.patches import Patch
from kubewright.client.rest.request import Interceptor
from kubewright.client.selectors import Fields, Labels
from kubewright.client.streams.exec import ExecResult
from kubewright.client.verbs.create_or_update import OperationResult, UpsertT
from kubewright.client.verbs.pods import PodRef
from kubewright.client.verbs.write import WritableT
from kubewright.deprecation import renamed_parameter

from .event_loop_thread import EventLoopThread
from .streams import (
    SyncExecCommand,
    SyncPodLog,
    SyncPortForward,
    SyncSubresourceClient,
    SyncWatch,
    as_coroutine,
)

if TYPE_CHECKING:
    from kubewright.api.autoscaling.v1 import Scale

ResultT = TypeVar("ResultT")


class SyncClient:
    """A synchronous client of one API server. Close it, or use it in `with`."""

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

    # Reads

    @overload
    def get(self, kind: type[TypedT], name: str, **arguments: Unpack[GetArguments]) -> TypedT: ...
    @overload
    def get(self, kind: UnstructuredKind, name: str, **arguments: Unpack[GetArguments]) -> Unstructured: ...
    @overload
    def get(
        self, kind: MetadataKind, name: str, **arguments: Unpack[GetArguments]
    ) -> PartialObjectMetadata: ...
    def get(self, kind: Any, name: str, **arguments: Unpack[GetArguments]) -> Any:
        """Return one object by name; raise `NotFound` if it does not exist."""
        return self.run(self.async_client.get(kind, name, **arguments))

    @overload
    def get_or_none(
        self, kind: type[TypedT], name: str, **arguments: Unpack[GetArguments]
    ) -> TypedT | None: ...
    @overload
    def get_or_none(
        self, kind: UnstructuredKind, name: str, **arguments: Unpack[GetArguments]
    ) -> Unstructured | None: ...
    @overload
    def get_or_none(
        self, kind: MetadataKind, name: str, **arguments: Unpack[GetArguments]
    ) -> PartialObjectMetadata | None: ...
    def get_or_none(self, kind: Any, name: str, **arguments: Unpack[GetArguments]) -> Any:
        """Return one object by name, or `None` if it does not exist."""
        return self.run(self.async_client.get_or_none(kind, name, **arguments))

    @overload
    def list(self, kind: type[TypedT], **arguments: Unpack[ListArguments]) -> ListResult[TypedT]: ...
    @overload
    def list(
        self, kind: UnstructuredKind, **arguments: Unpack[ListArguments]
    ) -> ListResult[Unstructured]: ...
    @overload
    def list(
        self, kind: MetadataKind, **arguments: Unpack[ListArguments]
    ) -> ListResult[PartialObjectMetadata]: ...
    def list(self, kind: Any, **arguments: Unpack[ListArguments]) -> ListResult[Any]:
        """Return all objects of a kind that match; `iterate` holds one page at a time."""
        return self.run(as_coroutine(self.async_client.list(kind, **arguments)))

    @overload
    def iterate(self, kind: type[TypedT], **arguments: Unpack[ListArguments]) -> Iterator[TypedT]: ...
    @overload
    def iterate(
        self, kind: UnstructuredKind, **arguments: Unpack[ListArguments]
    ) -> Iterator[Unstructured]: ...
    @overload
    def iterate(
        self, kind: MetadataKind, **arguments: Unpack[ListArguments]
    ) -> Iterator[PartialObjectMetadata]: ...
    def iterate(self, kind: Any, **arguments: Unpack[ListArguments]) -> Iterator[Any]:
        """Yield objects page by page, for collections that are too large for a list."""
        return self._thread.iterate(self.async_client.list(kind, **arguments))

    @overload
    def watch(self, kind: type[TypedT], **arguments: Unpack[WatchArguments]) -> SyncWatch[TypedT]: ...
    @overload
    def watch(
        self, kind: UnstructuredKind, **arguments: Unpack[WatchArguments]
    ) -> SyncWatch[Unstructured]: ...
    @overload
    def watch(
        self, kind: MetadataKind, **arguments: Unpack[WatchArguments]
    ) -> SyncWatch[PartialObjectMetadata]: ...
    def watch(self, kind: Any, **arguments: Unpack[WatchArguments]) -> SyncWatch[Any]:
        """Watch objects of a kind: `for event in client.watch(Pod, namespace="shop")`."""
        return SyncWatch(self.async_client.watch(kind, **arguments), self._thread)

    @overload
    def wait(
        self,
        target: type[TypedT] | TypedT,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[TypedT | None], bool],
        timeout: float | None = 30.0,
    ) -> TypedT | None: ...
    @overload
    def wait(
        self,
        target: UnstructuredKind | Unstructured,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[Unstructured | None], bool],
        timeout: float | None = 30.0,
    ) -> Unstructured | None: ...
    def wait(
        self,
        target: Any,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[Any], bool],
        timeout: float | None = 30.0,
    ) -> Any:
        """Wait until a predicate holds for an object, and return the object."""
        return self.run(
            self.async_client.wait(target, name, namespace=namespace, until=until, timeout=timeout)
        )

    def table(
        self,
        kind: AnyKind,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
    ) -> dict[str, Any]:
        """Return one object or all objects of a kind as a `Table`."""
        return self.run(self.async_client.table(kind, name, namespace=namespace, labels=labels))

    def version(self) -> dict[str, str]:
        """Return the version of the server."""
        return self.run(self.async_client.version())

    # Writes

    def create(
        self, obj: WritableT, *, namespace: str | None = None, **arguments: Unpack[WriteArguments]
    ) -> WritableT:
        """Create an object; raise `AlreadyExists` if it exists."""
        return self.run(self.async_client.create(obj, namespace=namespace, **arguments))

    def update(self, obj: WritableT, **arguments: Unpack[WriteArguments]) -> WritableT:
        """Send the changes since the object was read; raise `Conflict` if it has changed on the server."""
        return self.run(self.async_client.update(obj, **arguments))

    def update_status(self, obj: WritableT, **arguments: Unpack[WriteArguments]) -> WritableT:
        """Send the changes of `status` to the status subresource, and nothing else."""
        return self.run(self.async_client.update_status(obj, **arguments))

    @overload
    def patch(
        self, target: type[TypedT], patch: Patch, *, name: str, **arguments: Unpack[PatchArguments]
    ) -> TypedT: ...
    @overload
    def patch(
        self, target: UnstructuredKind, patch: Patch, *, name: str, **arguments: Unpack[PatchArguments]
    ) -> Unstructured: ...
    @overload
    def patch(
        self, target: WritableT, patch: Patch | None = None, **arguments: Unpack[PatchArguments]
    ) -> WritableT: ...
    def patch(
        self,
        target: Any,
        patch: Any = None,
        *,
        name: str | None = None,
        **arguments: Unpack[PatchArguments],
    ) -> Any:
        """Patch an object, or a kind and `name`; see `Client.patch`."""
        if name is None:
            return self.run(self.async_client.patch(target, patch, **arguments))
        return self.run(self.async_client.patch(target, patch, name=name, **arguments))

    def apply(self, obj: WritableT, **arguments: Unpack[ApplyArguments]) -> WritableT:
        """Server-side apply; see `Client.apply`."""
        return self.run(self.async_client.apply(obj, **arguments))

    @renamed_parameter("field_owner", "field_manager")
    def apply_yaml(
        self,
        source: str | os.PathLike[str],
        *,
        namespace: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> builtins.list[Unstructured]:
        """Server-side apply the objects of a manifest: a file, a directory, or text."""
        return self.run(
            self.async_client.apply_yaml(
                source, namespace=namespace, force=force, dry_run=dry_run, field_manager=field_manager
            )
        )

    @overload
    def delete(
        self, target: type[TypedT] | TypedT, name: str | None = None, **arguments: Unpack[DeleteArguments]
    ) -> TypedT | None: ...
    @overload
    def delete(
        self,
        target: UnstructuredKind | MetadataKind | Unstructured | dict[str, Any],
        name: str | None = None,
        **arguments: Unpack[DeleteArguments],
    ) -> Unstructured | PartialObjectMetadata | None: ...
    def delete(self, target: Any, name: str | None = None, **arguments: Unpack[DeleteArguments]) -> Any:
        """Delete an object; see `Client.delete`."""
        return self.run(self.async_client.delete(target, name, **arguments))

    def delete_all(
        self,
        kind: type[MetaObject] | UnstructuredKind | MetadataKind,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects of a kind that match the selectors."""
        self.run(
            self.async_client.delete_all(
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                propagation=propagation,
                grace_period=grace_period,
                dry_run=dry_run,
            )
        )

    def subresource(
        self, subresource: str, target: ObjectOrKind, name: str | None = None, *, namespace: str | None = None
    ) -> SyncSubresourceClient:
        """Return a client of a subresource: `client.subresource("eviction", pod)`."""
        inner = self.async_client.subresource(subresource, target, name, namespace=namespace)
        return SyncSubresourceClient(inner, self._thread)

    def scale(
        self,
        target: ObjectOrKind,
        name: str | None = None,
        *,
        namespace: str | None = None,
        replicas: int | None = None,
    ) -> Scale:
        """Return the scale of an object; with `replicas`, set it first."""
        return self.run(self.async_client.scale(target, name, namespace=namespace, replicas=replicas))

    def create_or_update(
        self, obj: UpsertT, mutate: Callable[[UpsertT], object]
    ) -> tuple[UpsertT, OperationResult]:
        """Create or update an object so that it is as `mutate` sets it; `mutate` runs in another thread."""
        return self.run(self.async_client.create_or_update(obj, mutate))

    def create_or_patch(
        self, obj: UpsertT, mutate: Callable[[UpsertT], object]
    ) -> tuple[UpsertT, OperationResult]:
        """As `create_or_update`, without optimistic lock."""
        return self.run(self.async_client.create_or_patch(obj, mutate))

    # Running pods

    def log(
        self,
        pod: PodRef,
        *,
        namespace: str | None = None,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: float | datetime | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> SyncPodLog:
        """Read the log of a container: iterate the result for lines, or `read()` it."""
        inner = self.async_client.log(
            pod,
            namespace=namespace,
            container=container,
            follow=follow,
            previous=previous,
            tail=tail,
            since=since,
            timestamps=timestamps,
            limit_bytes=limit_bytes,
        )
        return SyncPodLog(inner, self._thread)

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

    def attach(
        self,
        pod: PodRef,
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> SyncExecCommand:
        """Attach to the main process of a container: `with client.attach(pod) as process`."""
        inner = self.async_client.attach(pod, namespace=namespace, container=container, stdin=stdin, tty=tty)
        return SyncExecCommand(inner, self._thread)

    def port_forward(
        self,
        pod: PodRef,
        port: int,
        *,
        namespace: str | None = None,
        local_port: int = 0,
        address: str = "127.0.0.1",
    ) -> SyncPortForward:
        """Forward connections to a local port to a port of a pod, within `with`."""
        inner = self.async_client.port_forward(
            pod, port, namespace=namespace, local_port=local_port, address=address
        )
        return SyncPortForward(inner, self._thread)

    def copy_to(
        self,
        pod: PodRef,
        source: str | Path,
        destination: str,
        *,
        namespace: str | None = None,
        container: str = "",
    ) -> None:
        """Copy a local file or directory into a container; the container needs `tar`."""
        self.run(
            self.async_client.copy_to(pod, source, destination, namespace=namespace, container=container)
        )

    def copy_from(
        self,
        pod: PodRef,
        source: str,
        destination: str | Path,
        *,
        namespace: str | None = None,
        container: str = "",
    ) -> None:
        """Copy a file or directory out of a container; the container needs `tar`."""
        self.run(
            self.async_client.copy_from(pod, source, destination, namespace=namespace, container=container)
        )

    # Derived clients

    def _derive(self, client: Client) -> Self:
        return type(self)(client, self._thread)

    def in_namespace(self, namespace: str) -> Self:
        """Derive a client restricted to one namespace."""
        return self._derive(self.async_client.in_namespace(namespace))

    def with_default_namespace(self, namespace: str) -> Self:
        """Derive a client that uses this namespace where none is given."""
        return self._derive(self.async_client.with_default_namespace(namespace))

    def with_dry_run(self) -> Self:
        """Derive a client whose writes are validated by the server but not stored."""
        return self._derive(self.async_client.with_dry_run())

    def with_field_owner(self, field_owner: str) -> Self:
        """Call `with_field_manager`. Deprecated."""
        return self._derive(self.async_client.with_field_owner(field_owner))

    def with_field_manager(self, field_manager: str) -> Self:
        """Derive a client whose writes are recorded under this field manager."""
        return self._derive(self.async_client.with_field_manager(field_manager))

    def with_field_validation(self, mode: FieldValidation) -> Self:
        """Derive a client for which the server rejects, warns about or ignores unknown fields."""
        return self._derive(self.async_client.with_field_validation(mode))

    def with_interceptor(self, interceptor: Interceptor) -> Self:
        """Derive a client that calls an async `interceptor` around each request."""
        return self._derive(self.async_client.with_interceptor(interceptor))

    def with_timeout(self, seconds: float) -> Self:
        """Derive a client with this timeout for each request."""
        return self._derive(self.async_client.with_timeout(seconds))

    def with_impersonation(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        uid: str = "",
        extra: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Derive a client that impersonates another user; needs the impersonate permission."""
        return self._derive(self.async_client.with_impersonation(user, groups, uid=uid, extra=extra))


__all__ = ["SyncClient"]
