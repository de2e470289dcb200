"""Resources whose objects come from another system: a computation, an SQL table, another REST API.

    class Metrics(Rest[NodeMetrics]):
        async def list(self, *, namespace: str) -> list[NodeMetrics]: ...

    app.add(NodeMetrics, rest=Metrics())

`Rest` is the contract for the system. `backend_storage` makes a storage of it, so that
requests take the same path as for stored objects. `testing.RestLaws` has tests for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from kubewright.api.field_errors import FieldError
from kubewright.api.meta import MetaObject
from kubewright.api.selectors.field_selectors import FieldSelector
from kubewright.api.selectors.label_selectors import Selector
from kubewright.apiserver.resources.objects import Object

if TYPE_CHECKING:
    from kubewright.client import Client

ObjectT = TypeVar("ObjectT", bound=MetaObject)
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_STORED_METADATA: dict[str, tuple[str, ...]] = {
    "labels": ("labels",),
    "annotations": ("annotations",),
    "ownerReferences": ("ownerReferences",),
    "finalizers": ("finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"),
}
"""The fields of metadata for each value of `Rest.stores`."""

STORABLE = (*_STORED_METADATA, "status")
"""What `Rest.stores` can contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The objects that a list request needs; see `Rest.list_page`."""

    namespace: str = ""
    """The namespace; empty for all."""
    after: tuple[str, str] | None = None
    """Namespace and name of the last object of the previous page."""
    limit: int = 0
    """Maximum number of objects; 0: all."""
    labels: Selector | None = None
    fields: FieldSelector | None = None


class Rest(Generic[ObjectT]):
    """Objects of a kind in another system. Override the methods that the system supports.

    The verbs of the resource follow from the methods: `get`, `list` (also `watch`), `create`, `update` (also
    `patch`, and writes of `status` and `scale`) and `delete`. `get` or `list` is required. Raise an
    `APIError` (`NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`) where it applies. With several versions
    of the kind, objects have the stored one.

    The server calls one method at a time for an object that is written, and reads the object before each
    write. Other writers of the system, such as another replica of the server, can come between the two: set
    `metadata.resource_version` of the objects to the version that the system has for them, compare it in
    `update` and `delete` with that of `old`, and raise `Conflict` if it differs.

    `uid`, `creationTimestamp` and `generation` are set if the system returns none. They survive a restart of
    the server only if the system or the storage of the app stores them.
    """

    poll_interval: float = 10.0
    """Seconds between calls of `list` for watches, if there is no `watch`; with it, a tenth of the calls."""

    stores: tuple[str, ...] = ()
    """What the system stores besides the fields of the kind: `labels`, `annotations`, `ownerReferences`,
    `finalizers` (with `deletionTimestamp` and `deletionGracePeriodSeconds`) and `status`. Writes that change
    anything else of these are rejected."""

    client: Client
    """A client of the cluster that the server runs behind; set before the first call of a method."""

    async def get(self, name: str, *, namespace: str) -> ObjectT:
        """Return one object; raise `NotFound`. Without it, each read and write of an object lists all."""
        raise NotImplementedError

    async def list(self, *, namespace: str) -> Iterable[ObjectT]:
        """Return all objects of a namespace, or of all namespaces if it is empty."""
        raise NotImplementedError

    async def list_page(self, request: PageRequest) -> Iterable[ObjectT]:
        """Return the selected objects in the order of namespace and name: those after `request.after`, at
        most `request.limit`. Without it, lists with a limit or a selector call `list`."""
        raise NotImplementedError

    async def create(self, obj: ObjectT) -> ObjectT | None:
        """Create an object that passed admission and validation; return it as the system stored it.

        Raise `AlreadyExists` if another client of the system has created it. If `None` is returned, here or
        by `update`, the server reads the object again.
        """
        raise NotImplementedError

    async def update(self, obj: ObjectT, old: ObjectT) -> ObjectT | None:
        """Replace `old`, as `get` has just returned it; return the object as the system stored it.

        Raise `Conflict` if the object is no longer `old`: the server reads it again and repeats or rejects
        the request.
        """
        raise NotImplementedError

    async def delete(self, obj: ObjectT) -> None:
        """Delete an object, as `get` has just returned it. When this returns, the system does not return it
        any more."""
        raise NotImplementedError

    def watch(self) -> AsyncIterator[tuple[ChangeType, ObjectT]]:
        """Return the changes of all objects; when it ends, objects are listed again.

        A change is a reason to read the object again: it may be late, repeated or out of order.
        """
        raise NotImplementedError

    def supports(self, method: str) -> bool:
        """Whether a method is overridden."""
        return getattr(type(self), method) is not getattr(Rest, method)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs that the overridden methods support."""
        supported = {
            method for method in ("get", "list", "create", "update", "delete") if self.supports(method)
        }
        if "list" in supported:
            supported |= {"get", "watch"}
        if "update" in supported:
            supported.add("patch")
        if {"list", "delete"} <= supported:
            supported.add("deletecollection")
        return tuple(sorted(supported))

    def check(self, kind: str, *, graceful: bool) -> None:
        """Raise `ValueError` for a declaration that cannot work."""
        name = type(self).__name__
        if not (self.supports("get") or self.supports("list")):
            raise ValueError(f"{name}, the Rest of {kind}, has neither get nor list; add one of them")
        if unknown := sorted(set(self.stores) - set(STORABLE)):
            raise ValueError(f"{name}.stores has {', '.join(unknown)}; use {', '.join(STORABLE)}")
        if graceful and "finalizers" not in self.stores:
            raise ValueError(
                f"the strategy of {kind} has a grace period, for which {name} has to store "
                'deletionTimestamp; add "finalizers" to its stores'
            )

    def unsupported_changes(self, obj: Object, old: Object | None, resource: str) -> Sequence[FieldError]:
        """Return an error for each field of a write that the system does not store."""
        new, before = obj["metadata"], (old or {}).get("metadata") or {}
        errors = []
        for stored, fields in _STORED_METADATA.items():
            if stored in self.stores:
                continue
            for name in fields:
                if _without_last_applied(new.get(name)) != _without_last_applied(before.get(name)):
                    errors.append(FieldError.forbidden(f"metadata.{name}", _cannot_store(resource, name)))
        if "status" not in self.stores and (obj.get("status") or {}) != ((old or {}).get("status") or {}):
            errors.append(FieldError.forbidden("status", _cannot_store(resource, "status")))
        return errors


def _cannot_store(resource: str, field: str) -> str:
    return f"the backend of {resource} does not store {field}"


def _without_last_applied(value: Any) -> Any:
    """Return a field without what kubectl adds, which the server stores; `None` if it is empty."""
    if isinstance(value, dict):
        value = {key: each for key, each in value.items() if key != LAST_APPLIED}
    return value or None
