"""Strategies: what is specific to one resource in the processing of a write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kubewright.api.field_errors import FieldError
from kubewright.api.names import check_dns_subdomain

from .objects import Object

if TYPE_CHECKING:
    from .authentication.user import User
    from .http.messages import HTTPRequest
    from .resource import Resource, Version
    from .rest.store import ResourceStore

MaybeAwait = Awaitable[None] | None


@dataclass(slots=True)
class Operation:
    """One write as hooks see it."""

    verb: Literal["create", "update", "patch", "delete"]
    """`patch` covers all four kinds of patches; a create through PUT or apply is `create`."""
    resource: Resource
    version: Version
    """The version that the client speaks."""
    namespace: str
    name: str
    """The name in the URL, or that of the object; empty while a generated name is outstanding."""
    subresource: str
    user: User
    dry_run: bool
    options: Object
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""
    request: HTTPRequest | None
    warnings: list[str]
    field_manager: str = ""
    collective: bool = False
    """Part of deleting many, a request that names no object."""
    _undoings: list[Callable[[], Awaitable[object]]] | None = None

    def warn(self, text: str) -> None:
        """Send a `Warning` header, once."""
        if text and text not in self.warnings:
            self.warnings.append(text)

    def undo_with(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Call this if the write comes to nothing after all."""
        self._undoings = [*(self._undoings or ()), undo]

    async def undo(self) -> None:
        """Take back what was done for a write that has come to nothing."""
        undoings, self._undoings = self._undoings or (), None
        for undo in undoings:
            await undo()


class Strategy:
    """What is particular about a resource. Override what differs; the defaults suit custom resources.

    Methods may be async where the signature says `MaybeAwait`.
    """

    allow_create_on_update = False
    """PUT of a missing object creates it."""
    allow_unconditional_update = False
    """PUT without a resourceVersion overwrites whatever is there."""
    checks_whole_on_update = False
    """An update is checked by the rules for new objects, too, which then name bad metadata once more."""
    rechecks_metadata = True
    """The rules of the kind look at the metadata of an update again, and name what is bad about it again."""
    returns_deleted_object = False
    """DELETE answers with the object instead of a Status."""
    row_order: Callable[[Object], Any] | None = None
    """What the rows of tables are sorted by, where that is not the name."""
    annotation_of_whole = ""
    """An annotation that stands for a field of one version: tables, which show no version, leave it out."""
    checks_deletion_itself = False
    """Preconditions of a deletion that fail are told in the words of kinds with a deletion of their own."""
    default_propagation: Literal["Background", "Orphan", "Foreground", "Unsupported"] = "Background"
    """What happens to dependents where nobody says; objects of some kinds have none (`Unsupported`)."""
    ttl: int | None = None
    """Seconds after which objects vanish (events)."""
    track_managed_fields = True
    error_group: str | None = None
    """The group that errors name, where it is not the resource's own."""
    status_fields: tuple[str, ...] = ("status",)
    """Top-level fields that belong to the `status` subresource where the version has one."""
    status_subresources: tuple[str, ...] = ("status",)
    """Subresources through which those fields may be written."""
    status_on_create = False
    """Whether a new object may bring its status along (nodes do)."""

    def attached(self, store: ResourceStore) -> None:
        """Called when a server begins to serve the resource, for strategies that look at other objects."""

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """What is wrong with a name (`prefix`: with a generateName); DNS-1123 subdomains by default."""
        return check_dns_subdomain(name, prefix=prefix)

    def validate_finalizers(self, finalizers: Sequence[str]) -> Iterable[FieldError]:
        """What is wrong with finalizers, beyond that they are qualified names."""
        return ()

    def prepare_for_create(self, op: Operation, obj: Object) -> MaybeAwait:
        """Drop what clients may not set, fill in what the server decides."""

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> MaybeAwait:
        """The same for an update. `status` is already taken from `old` where it has its own subresource."""

    def initial_generation(self, obj: Object) -> int | None:
        """The generation of a new object; `None` leaves what the client sent."""
        return 1

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Whether this update is a new generation: anything outside metadata and status, by default."""
        skip = {"metadata", "apiVersion", "kind"}
        if "status" in op.version.subresources:
            skip.update(self.status_fields)
        keys = (obj.keys() | old.keys()) - skip
        return any(obj.get(key) != old.get(key) for key in keys)

    def default(self, version: Version, obj: Object) -> None:
        """Defaults that a schema cannot express; runs after the schema's, on an object of that version."""

    def validate(self, op: Operation, obj: Object) -> Iterable[FieldError] | Awaitable[Iterable[FieldError]]:
        """Errors of a new object, beyond its schema."""
        return ()

    def validate_update(
        self, op: Operation, obj: Object, old: Object
    ) -> Iterable[FieldError] | Awaitable[Iterable[FieldError]]:
        """Errors of an update, beyond the schema."""
        return ()

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Warnings about a valid object."""
        return ()

    def canonicalize(self, obj: Object) -> None:
        """Bring a valid object into its stored form."""

    graceful = False
    """Whether DELETE may leave the object for a while (`grace_period`)."""

    def row_conditions(self, obj: Object) -> list[Object]:
        """What tables say about an object beside its cells."""
        return []

    def grace_period(self, op: Operation, obj: Object, requested: int | None) -> int:
        """Seconds between DELETE and removal; 0 removes at once. Pods are why this exists."""
        return 0

    def deletion_asked(self, op: Operation) -> None:
        """Before anything is looked for: somebody asks to delete one object or many (then without a name)."""

    def before_delete(self, op: Operation, obj: Object) -> MaybeAwait:
        """Change an object that stays for finalizers or grace; may also add finalizers."""

    def may_vanish(self, obj: Object) -> bool:
        """Whether an object that is being deleted may go once its finalizers are gone (namespaces have
        more)."""
        return True

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Fields, as dotted paths, that managers never own through this endpoint."""
        return ("metadata", "spec") if subresource == "status" else ("status",)

    def stored(self, op: Operation, obj: Object, old: Object | None) -> MaybeAwait:
        """Called after a write has been stored (`obj` with its resourceVersion); not on dry runs."""

    def deleted(self, op: Operation, obj: Object) -> MaybeAwait:
        """Called after an object has been removed from storage."""
