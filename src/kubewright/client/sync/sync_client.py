"""`SyncClient`: the verbs of `Client` for programs without an event loop.

    with SyncClient.connect() as client:
        web = client.get(Deployment, "web")
        pods = client.list(Pod, labels="app=web")         # a list: len(pods), pods[0]
        for event in client.watch(Pod): ...
        with client.port_forward("web-0", 8080) as forward: ...

Each verb runs the verb of `Client` with the same name and arguments in a background thread and waits for it.
Written by `tools/generate_sync_client.py`; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from kubewright.api.unstructured import Unstructured
from kubewright.client.patches import (
    Patch,
    former_patch_order,
)
from kubewright.client.verbs.read import PAGE_SIZE
from kubewright.deprecation import adapted, renamed_parameter

from .base import BlockingSubresource, BlockingVerbs
from .streams import SyncExecCommand, SyncPodLog, SyncPortForward, SyncWatch, as_coroutine

if TYPE_CHECKING:
    import builtins
    import os
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from kubewright.api.autoscaling.v1 import Scale
    from kubewright.api.meta import Preconditions
    from kubewright.client.arguments import (
        DeleteArguments,
        FieldValidation,
        GetArguments,
        ListArguments,
        PatchArguments,
        Propagation,
        WatchArguments,
    )
    from kubewright.client.kind_types import AnyKind, KindOf, ObjectOrKind, ObjectT
    from kubewright.client.listwatch.pager import ListResult
    from kubewright.client.rest.request import Interceptor
    from kubewright.client.selectors import Fields, Labels
    from kubewright.client.verbs.create_or_update import OperationResult, UpsertT
    from kubewright.client.verbs.pods import PodRef
    from kubewright.client.verbs.subresource import SubresourceT
    from kubewright.client.verbs.write import WritableT


class SyncSubresourceClient(BlockingSubresource):
    """Verbs on one subresource of one object. `as_` is the class that a response is decoded as."""

    @overload
    def get(self) -> Unstructured: ...

    @overload
    def get(self, as_: type[SubresourceT]) -> SubresourceT: ...

    def get(self, as_: type[Any] = Unstructured) -> Any:
        """Read the subresource."""
        return self.run(self._client.get(as_))

    def create(self, body: SubresourceT, *, dry_run: bool = False) -> SubresourceT:
        """Post an object to the subresource and return the response, of the same class."""
        return self.run(self._client.create(body, dry_run=dry_run))

    def update(self, body: SubresourceT, *, dry_run: bool = False) -> SubresourceT:
        """Replace the subresource."""
        return self.run(self._client.update(body, dry_run=dry_run))

    @overload
    def patch(self, patch: Patch, *, dry_run: bool = False) -> Unstructured: ...

    @overload
    def patch(self, patch: Patch, as_: type[SubresourceT], *, dry_run: bool = False) -> SubresourceT: ...

    def patch(self, patch: Patch, as_: type[Any] = Unstructured, *, dry_run: bool = False) -> Any:
        """Patch the subresource."""
        return self.run(self._client.patch(patch, as_, dry_run=dry_run))


class SyncClient(BlockingVerbs):
    """A synchronous client of one API server. Close it, or use it in `with`."""

    @overload
    def get(self, kind: KindOf[ObjectT], name: str, **arguments: Unpack[GetArguments]) -> ObjectT: ...

    @overload
    def get(self, kind: str, name: str, **arguments: Unpack[GetArguments]) -> Unstructured: ...

    def get(self, kind: Any, name: str, *, namespace: str | None = None, resource_version: str = "") -> Any:
        """Return one object by name; raise `NotFound` if it does not exist.

        See `Client.get`.
        """
        return self.run(
            self.async_client.get(kind, name, namespace=namespace, resource_version=resource_version)
        )

    @overload
    def get_or_none(
        self, kind: KindOf[ObjectT], name: str, **arguments: Unpack[GetArguments]
    ) -> ObjectT | None: ...

    @overload
    def get_or_none(self, kind: str, name: str, **arguments: Unpack[GetArguments]) -> Unstructured | None: ...

    def get_or_none(
        self, kind: Any, name: str, *, namespace: str | None = None, resource_version: str = ""
    ) -> Any:
        """Return one object by name, or `None` if it does not exist."""
        return self.run(
            self.async_client.get_or_none(kind, name, namespace=namespace, resource_version=resource_version)
        )

    @overload
    def list(self, kind: KindOf[ObjectT], **arguments: Unpack[ListArguments]) -> ListResult[ObjectT]: ...

    @overload
    def list(self, kind: str, **arguments: Unpack[ListArguments]) -> ListResult[Unstructured]: ...

    def list(
        self,
        kind: Any,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        page_size: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> ListResult[Any]:
        """Return all objects of a kind that match; `iterate` holds one page at a time. See `Client.list`."""
        return self.run(
            as_coroutine(
                self.async_client.list(
                    kind,
                    namespace=namespace,
                    labels=labels,
                    fields=fields,
                    limit=limit,
                    page_size=page_size,
                    resource_version=resource_version,
                    resource_version_match=resource_version_match,
                )
            )
        )

    @overload
    def watch(self, kind: KindOf[ObjectT], **arguments: Unpack[WatchArguments]) -> SyncWatch[ObjectT]: ...

    @overload
    def watch(self, kind: str, **arguments: Unpack[WatchArguments]) -> SyncWatch[Unstructured]: ...

    def watch(
        self,
        kind: Any,
        *,
        name: str | None = None,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        resume: bool = True,
    ) -> SyncWatch[Any]:
        """Watch objects of a kind: `for event in client.watch(Pod, namespace="shop")`."""
        return SyncWatch(
            self.async_client.watch(
                kind,
                name=name,
                namespace=namespace,
                labels=labels,
                fields=fields,
                resource_version=resource_version,
                bookmarks=bookmarks,
                resume=resume,
            ),
            self._thread,
        )

    def table(
        self,
        kind: AnyKind,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
    ) -> dict[str, Any]:
        """Return one object or all objects of a kind as the server prints them: a `meta.k8s.io/v1 Table`."""
        return self.run(self.async_client.table(kind, name, namespace=namespace, labels=labels))

    @overload
    def wait(
        self,
        target: KindOf[ObjectT] | ObjectT,
        name: str | None = None,
        *,
        namespace: str | None = None,
        until: Callable[[ObjectT | None], bool],
        timeout: float | None = 30.0,
    ) -> ObjectT | None: ...

    @overload
    def wait(
        self,
        target: str,
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
        """Wait until a predicate (`condition`, `deleted`, `exists`, `field_is` or a function) holds.

        See `Client.wait`.
        """
        return self.run(
            self.async_client.wait(target, name, namespace=namespace, until=until, timeout=timeout)
        )

    @renamed_parameter("field_owner", "field_manager")
    def create(
        self,
        obj: WritableT,
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Create an object; raise `AlreadyExists` if it exists."""
        return self.run(
            self.async_client.create(
                obj,
                namespace=namespace,
                dry_run=dry_run,
                field_manager=field_manager,
                field_validation=field_validation,
            )
        )

    @renamed_parameter("field_owner", "field_manager")
    def update(
        self,
        obj: WritableT,
        *,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Send the changes since the object was read; raise `Conflict` if it has changed on the server."""
        return self.run(
            self.async_client.update(
                obj, dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
            )
        )

    @renamed_parameter("field_owner", "field_manager")
    def update_status(
        self,
        obj: WritableT,
        *,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Send the changes of `status` to the status subresource.

        See `Client.update_status`.
        """
        return self.run(
            self.async_client.update_status(
                obj, dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
            )
        )

    @overload
    def patch(
        self, target: KindOf[ObjectT], name: str, patch: Patch, **arguments: Unpack[PatchArguments]
    ) -> ObjectT: ...

    @overload
    def patch(
        self, target: str, name: str, patch: Patch, **arguments: Unpack[PatchArguments]
    ) -> Unstructured: ...

    @overload
    def patch(
        self, target: WritableT, patch: Patch | None = None, **arguments: Unpack[PatchArguments]
    ) -> WritableT: ...

    @renamed_parameter("field_owner", "field_manager")
    @adapted(former_patch_order)
    def patch(
        self,
        target: Any,
        name: Any = None,
        patch: Any = None,
        *,
        namespace: str | None = None,
        subresource: str = "",
        optimistic_lock: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> Any:
        """Patch an object, `patch(obj, patch)`, or one of a kind, `patch(kind, name, patch)`.

        See `Client.patch`.
        """
        return self.run(
            self.async_client.patch(
                target,
                name,
                patch,
                namespace=namespace,
                subresource=subresource,
                optimistic_lock=optimistic_lock,
                dry_run=dry_run,
                field_manager=field_manager,
                field_validation=field_validation,
            )
        )

    @renamed_parameter("field_owner", "field_manager")
    def apply(
        self,
        obj: WritableT,
        *,
        namespace: str | None = None,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> WritableT:
        """Server-side apply: set and own the fields of `obj`, remove owned fields that it no longer has.

        See `Client.apply`.
        """
        return self.run(
            self.async_client.apply(
                obj,
                namespace=namespace,
                force=force,
                subresource=subresource,
                dry_run=dry_run,
                field_manager=field_manager,
                field_validation=field_validation,
            )
        )

    @overload
    def delete(
        self, target: KindOf[ObjectT] | ObjectT, name: str | None = None, **arguments: Unpack[DeleteArguments]
    ) -> ObjectT | None: ...

    @overload
    def delete(
        self, target: str | dict[str, Any], name: str | None = None, **arguments: Unpack[DeleteArguments]
    ) -> Unstructured | None: ...

    def delete(
        self,
        target: Any,
        name: str | None = None,
        *,
        namespace: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        preconditions: Preconditions | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
    ) -> Any:
        """Delete an object. Returns the object if the server returns it, `None` if it is deleted.

        See `Client.delete`.
        """
        return self.run(
            self.async_client.delete(
                target,
                name,
                namespace=namespace,
                propagation=propagation,
                grace_period=grace_period,
                preconditions=preconditions,
                missing_ok=missing_ok,
                dry_run=dry_run,
            )
        )

    def delete_all(
        self,
        kind: AnyKind,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects of a kind, in one namespace if it has namespaces, that match the selectors."""
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
        return SyncPodLog(
            self.async_client.log(
                pod,
                namespace=namespace,
                container=container,
                follow=follow,
                previous=previous,
                tail=tail,
                since=since,
                timestamps=timestamps,
                limit_bytes=limit_bytes,
            ),
            self._thread,
        )

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
        return SyncExecCommand(
            self.async_client.attach(pod, namespace=namespace, container=container, stdin=stdin, tty=tty),
            self._thread,
        )

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
        return SyncPortForward(
            self.async_client.port_forward(
                pod, port, namespace=namespace, local_port=local_port, address=address
            ),
            self._thread,
        )

    def copy_to(
        self,
        pod: PodRef,
        source: str | Path,
        destination: str,
        *,
        namespace: str | None = None,
        container: str = "",
    ) -> None:
        """Copy a local file or directory into a container as `destination`; the container needs `tar`."""
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
        """Copy a file or directory out of a container as `destination`; the container needs `tar`.

        See `Client.copy_from`.
        """
        self.run(
            self.async_client.copy_from(pod, source, destination, namespace=namespace, container=container)
        )

    def in_namespace(self, namespace: str) -> Self:
        """Derive a client restricted to one namespace: other namespaces are rejected, lists stay inside."""
        return self._derive(self.async_client.in_namespace(namespace))

    def with_default_namespace(self, namespace: str) -> Self:
        """Derive a client for which `namespace=None` means this namespace, in lists and watches too.

        See `Client.with_default_namespace`.
        """
        return self._derive(self.async_client.with_default_namespace(namespace))

    def with_dry_run(self) -> Self:
        """Derive a client whose writes are validated by the server but not stored."""
        return self._derive(self.async_client.with_dry_run())

    def with_field_manager(self, field_manager: str) -> Self:
        """Derive a client whose writes are recorded under this field manager."""
        return self._derive(self.async_client.with_field_manager(field_manager))

    def with_field_owner(self, field_owner: str) -> Self:
        """Call `with_field_manager`. Deprecated."""
        return self._derive(self.async_client.with_field_owner(field_owner))

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

    def subresource(
        self, subresource: str, target: ObjectOrKind, name: str | None = None, *, namespace: str | None = None
    ) -> SyncSubresourceClient:
        """Return a client of a subresource of an object, or of a kind and name.

        See `Client.subresource`.
        """
        return SyncSubresourceClient(
            self.async_client.subresource(subresource, target, name, namespace=namespace), self._thread
        )

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
        """As `Client.create_or_update`; `mutate` runs in another thread."""
        return self.run(self.async_client.create_or_update(obj, mutate))

    def create_or_patch(
        self, obj: UpsertT, mutate: Callable[[UpsertT], object]
    ) -> tuple[UpsertT, OperationResult]:
        """As `create_or_update`, without optimistic lock; sends only the changes, status included."""
        return self.run(self.async_client.create_or_patch(obj, mutate))

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
        """Server-side apply the objects of a manifest, in order, and return them.

        See `Client.apply_yaml`.
        """
        return self.run(
            self.async_client.apply_yaml(
                source, namespace=namespace, force=force, dry_run=dry_run, field_manager=field_manager
            )
        )

    def version(self) -> dict[str, str]:
        """Return the version of the server: `major`, `minor`, `gitVersion` and so on."""
        return self.run(self.async_client.version())
