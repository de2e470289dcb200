"""Strategies: what is specific to one resource in the processing of a write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kubewright.api.field_errors import FieldError
from kubewright.api.values.names import check_dns_subdomain
from kubewright.storage.contract import KeyExists, RequestTooLarge, RevisionMismatch

from .objects import Object

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.user import User
    from kubewright.apiserver.http.messages import HTTPRequest, WarningRecorder
    from kubewright.apiserver.rest.store import ResourceStore

    from .resource import Resource, Version

MaybeAwait = Awaitable[None] | None
"""The result of a hook that is a plain or an async function."""


@dataclass(slots=True)
class Operation:
    """One write, as hooks see it."""

    verb: Literal["create", "update", "patch", "delete"]
    """`patch` for all patch types; a create through PUT or apply is `create`."""
    resource: Resource
    version: Version
    """The requested version."""
    namespace: str
    name: str
    """The name in the URL, or that of the object; empty until a generated name is known."""
    subresource: str
    user: User
    dry_run: bool
    options: Object
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""
    request: HTTPRequest | None
    warnings: WarningRecorder
    field_manager: str = ""
    collective: bool = False
    """Whether the object is deleted as part of a collection."""
    is_long: bool = False
    """Whether the object is so long that it is decoded and validated in the worker thread."""
    _undo_steps: list[Callable[[], Awaitable[object]]] | None = None

    _finish_steps: list[Callable[[], object]] | None = None

    def warn(self, text: str) -> None:
        """Add a `Warning` header, once."""
        if text:
            self.warnings.add(text)

    def on_failure(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Call a function if the write fails later, such as the release of an allocated address.

        It is not called when the write was passed to storage and its outcome is unknown or success.
        """
        self._undo_steps = [*(self._undo_steps or ()), undo]

    async def commit(self, write: Awaitable[int]) -> int:
        """Await a write to storage; returns its revision.

        Only a write that storage has rejected is undone afterwards. A write whose request is cancelled or
        times out may still be stored, and so may one whose response was lost.
        """
        steps, self._undo_steps = self._undo_steps, None
        try:
            return await write
        except (KeyExists, RequestTooLarge, RevisionMismatch):
            self._undo_steps = steps
            raise

    def on_finish(self, call: Callable[[], object]) -> None:
        """Call a function when the write has been stored or has failed."""
        self._finish_steps = [*(self._finish_steps or ()), call]

    def finish(self) -> None:
        """Call the functions of `on_finish`."""
        steps, self._finish_steps = self._finish_steps or (), None
        for call in steps:
            call()

    async def undo(self) -> None:
        """Call the functions of `on_failure`; called when the write has failed."""
        steps, self._undo_steps = self._undo_steps or (), None
        for undo in steps:
            await undo()


class Strategy:
    """Hooks and options of a resource. Override what differs; the defaults are those of custom resources.

    Hooks may change the object they receive. Those that return `MaybeAwait` may be async functions.
    """

    allow_create_on_update = False
    """Whether PUT of a missing object creates it."""
    allow_unconditional_update = False
    """Whether PUT without a resourceVersion replaces the object."""
    checks_whole_on_update = False
    """Whether updates are also validated as new objects, which repeats errors in metadata."""
    rechecks_metadata = True
    """Whether metadata of an update is validated twice, which repeats its errors."""
    returns_deleted_object = False
    """Whether DELETE responds with the object instead of a Status."""
    row_order: Callable[[Object], Any] | None = None
    """Sort key of Table rows; by name if `None`."""
    table_hidden_annotation = ""
    """An annotation that Tables omit, because it stands for a field of one version."""
    custom_delete_preconditions = False
    """Whether failed preconditions of a delete are reported as by kinds with their own delete."""
    default_propagation: Literal["Background", "Orphan", "Foreground", "Unsupported"] = "Background"
    """Propagation policy of a delete without one; `Unsupported` for kinds without dependents."""
    ttl: int | None = None
    """Seconds until objects expire (events)."""
    status_defaults_need_spec = True
    """Whether defaults of the status may depend on the spec, so that a status patch has to decode both."""
    runs_in_worker = False
    """Whether hooks that are plain functions may run in a worker thread, for objects over 128 KiB: `default`,
    `validate`, `validate_update` and `warnings` must then use only their arguments."""
    track_managed_fields = True
    error_group: str | None = None
    """The group in error messages, if not that of the resource."""
    status_fields: tuple[str, ...] = ("status",)
    """Top-level fields that belong to the `status` subresource, if the version has one."""
    status_subresources: tuple[str, ...] = ("status",)
    """Subresources that write these fields."""
    status_on_create = False
    """Whether a new object keeps its status (nodes do)."""
    graceful = False
    """Whether DELETE marks the object first, and removes it after the grace period (`grace_period`). True for
    a class that overrides `grace_period`, unless it sets this itself."""
    unsupported_field_message = ""
    """Format of the error for a field that cannot be selected, with `{label}` and `{gvk}`, if it is not the
    usual one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for each in cls.__mro__[: cls.__mro__.index(Strategy)]:  # also a base that is not a Strategy
            if "graceful" in vars(each):
                break
            if "grace_period" in vars(each):
                cls.graceful = True
                break

    def on_attach(self, store: ResourceStore) -> None:
        """Called when a server starts to serve the resource, for strategies that read other objects."""

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Validate a name, or a generateName (`prefix`); DNS-1123 subdomains by default."""
        return check_dns_subdomain(name, prefix=prefix)

    def validate_finalizers(self, finalizers: Sequence[str]) -> Iterable[FieldError]:
        """Validate finalizers, which are known to be qualified names."""
        return ()

    def prepare_for_create(self, op: Operation, obj: Object) -> MaybeAwait:
        """Remove what clients cannot set, set what the server decides."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> MaybeAwait:
        """Do the same for an update. A status with its own subresource is already that of `old`."""

    def initial_generation(self, obj: Object) -> int | None:
        """Return the generation of a new object; `None` keeps what the client sent."""
        return 1

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Whether an update increments the generation: by default, if more than metadata and status
        changed."""
        skip = {"metadata", "apiVersion", "kind"}
        if "status" in op.version.subresources:
            skip.update(self.status_fields)
        keys = (obj.keys() | old.keys()) - skip
        return any(obj.get(key) != old.get(key) for key in keys)

    def default(self, version: Version, obj: Object) -> None:
        """Apply defaults that a schema cannot express; called after the schema's defaults."""

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError] | Awaitable[Iterable[FieldError]]:
        """Validate a new object, beyond its schema."""
        return ()

    def validate_update(
        self, op: Operation, obj: Object, old: Object
    ) -> Iterable[FieldError] | Awaitable[Iterable[FieldError]]:
        """Validate an update, beyond the schema."""
        return ()

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Return warnings about a valid object."""
        return ()

    def canonicalize(self, obj: Object) -> None:
        """Bring a valid object into its stored form."""

    def row_conditions(self, obj: Object) -> list[Object]:
        """Return the conditions of a Table row."""
        return []

    def grace_period(self, op: Operation, obj: Object, requested: int | None) -> int:
        """Return the seconds between DELETE and removal; 0 removes immediately."""
        return 0

    def before_delete_request(self, op: Operation) -> None:
        """Called before the object of a DELETE is read; without a name for a collection."""

    def before_delete(self, op: Operation, obj: Object) -> MaybeAwait:
        """Change an object that is marked for deletion; may add finalizers."""

    def may_be_removed(self, obj: Object) -> bool:
        """Whether a deleted object without finalizers can be removed (namespaces have `spec.finalizers`)."""
        return True

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Return the fields, as dotted paths, that managers cannot own through this endpoint."""
        return ("metadata", "spec") if subresource == "status" else ("status",)

    def after_store(self, op: Operation, obj: Object, old: Object | None) -> MaybeAwait:
        """Called after a write is stored (`obj` has its resourceVersion); not for dry runs."""

    def after_delete(self, op: Operation, obj: Object) -> MaybeAwait:
        """Called after an object is removed from storage; not for dry runs."""
