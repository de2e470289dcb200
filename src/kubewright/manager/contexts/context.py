"""`Context`: what a function of an operator needs to process one object.

It belongs to one call for one object: objects that it creates are owned by that object, and events and log
lines refer to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kubewright.api.conditions import is_condition_true, set_condition
from kubewright.api.declaring.declarations import has_status, is_resource
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.meta import Condition, MetaObject
from kubewright.api.owners import OwnerError, set_controller_reference
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, CachedClient
from kubewright.client.membership import owner_mark
from kubewright.client.patches import has_changes
from kubewright.client.set_writes import take_over
from kubewright.controller.causes import Causes
from kubewright.controller.children.desired_state import DesiredState, EnsureResult
from kubewright.controller.request import Request
from kubewright.deprecation import warn_deprecated
from kubewright.manager.events import EventRecorder, EventType

from .unawaited import recorded

T = TypeVar("T", bound=MetaObject | Unstructured)
ChildT = TypeVar("ChildT", bound=MetaObject)

OWNERSHIP_CONFLICT = "OwnershipConflict"
"""Event reason and condition type for a child that exists and is not owned by the object."""
CONTROLLER_CONFLICT = "ControllerConflict"
"""Event reason for a child that another controller changes or deletes again and again."""


class ObjectLogger(logging.LoggerAdapter[logging.Logger]):
    """Logger that adds the fields of an object to every line."""

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the fields of the object; fields of the call take precedence."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


@dataclass(slots=True, kw_only=True)
class BaseContext(Generic[T]):
    """The parts of a context that are the same for async and plain functions."""

    request: Request
    object: T
    cache: Cache
    recorder: EventRecorder
    log: ObjectLogger
    desired: DesiredState
    causes: Causes = ()
    """Why the function is called: changed objects, requeue, retry. For diagnosis: it can be incomplete."""

    def event(self, type: EventType, reason: str, message: str) -> None:
        """Record an event about the object."""
        self.recorder.event(self.object, type, reason, message)

    def own(self, child: ChildT) -> ChildT:
        """Set the object as the controlling owner of a child, before the child is written."""
        if not child.metadata.namespace:
            child.metadata.namespace = self.object.metadata.namespace
        set_controller_reference(self.object, child)
        return child


@dataclass(slots=True, kw_only=True)
class Context(BaseContext[T], Generic[T]):
    """One call of an async function for one object. A plain function receives a `SyncContext`."""

    client: CachedClient
    """Reads from the cache, including own writes; `client.uncached` reads from the API server."""
    find_memory: Callable[[], dict[str, Any]] = field(repr=False)
    """Returns the memory of the object; creates it if the object has none."""

    @property
    def memory(self) -> dict[str, Any]:
        """Values that functions keep for this object between calls; lost when the process ends."""
        return self.find_memory()

    @recorded
    async def ensure(
        self,
        children: Iterable[MetaObject | Unstructured | dict[str, Any]],
        *,
        adopt: bool = False,
        prune: bool = True,
    ) -> EnsureResult:
        """Apply these children, owned by the object, and delete others that this function has applied.

        Uses server-side apply, only for children that differ from the cache. Returns what was applied,
        unchanged and deleted. Deleted are objects of the owned kinds that the object controls, and that have
        the field manager of this function (`ctx.desired.manager`). A child that another controller changes or
        deletes again and again is recorded as an event. With `prune=False` nothing is deleted: the list is a
        part of the children, such as one that others depend on.

        Raises `AdoptionError` for an existing child without an owner that this operator did not apply, unless
        `adopt`, and `OwnerError` for one that another owner controls. Both are also recorded as an event and,
        if the status has `conditions`, as the condition `OwnershipConflict`.
        """
        try:
            result = await self.desired.ensure(self.object, children, adopt=adopt, prune=prune)
        except OwnerError as error:
            self.event("Warning", OWNERSHIP_CONFLICT, str(error))
            await self._report_conflict(
                Condition(
                    type=OWNERSHIP_CONFLICT, status="True", reason=type(error).__name__, message=str(error)
                )
            )
            raise
        self.report_conflicts(result)
        if is_condition_true(_status_with_conditions(self.object), OWNERSHIP_CONFLICT):
            await self._report_conflict(
                Condition(
                    type=OWNERSHIP_CONFLICT, status="False", reason="Applied", message="all objects are owned"
                )
            )
        return result

    def report_conflicts(self, result: EnsureResult) -> None:
        """Record an event for each child that other writers change or delete again and again."""
        for each in result.conflicts:
            self.event("Warning", CONTROLLER_CONFLICT, each)

    async def _report_conflict(self, condition: Condition) -> None:
        """Set a condition on the server and in the object, without other changes of the object."""
        status = _status_with_conditions(self.object)
        if status is None:
            return
        set_condition(status, condition)
        kind: Any = type(self.object)
        current: Any = await self.client.get_or_none(
            kind, self.request.name, namespace=self.request.namespace or None
        )
        if current is None or not set_condition(current.status, condition):
            return
        try:
            await self.client.update_status(current)
        except (Conflict, NotFound):
            # The next attempt to apply the children reports it again.
            return

    @recorded
    async def apply(self, child: ChildT, *, force: bool = True) -> ChildT:
        """Apply a child, owned by the object. Deprecated: use `ensure([child], prune=False)`.

        Unlike `ensure` it sends every call, and takes over an existing object that has no owner.
        """
        warn_deprecated("ctx.apply(child)", "ctx.ensure([child], prune=False)")
        manager = self.desired.manager
        applied = await self.client.apply(self.own(child), force=force, field_manager=manager.name)
        await take_over(self.client, applied, manager, owner_mark(self.object.metadata.uid))
        return applied

    @recorded
    async def update_status(self) -> None:
        """Write the changes in the status of the object; send nothing if it did not change.

        Raises `UnsentChangesError` if other fields of the object were changed: they would be lost.
        """
        cls = type(self.object)
        if is_resource(cls) and not has_status(cls):
            raise TypeError(
                f"{cls.__name__} has no status: declare it as CustomResource[<spec>, {cls.__name__}Status]"
            )
        if has_changes(self.object, part="status", alone=True):
            await self.client.update_status(self.object)


def _status_with_conditions(obj: Any) -> Any:
    """Return the status of an object if it has a field `conditions`, else `None`."""
    status = obj.status if "status" in getattr(type(obj), "__struct_fields__", ()) else None
    return status if "conditions" in getattr(type(status), "__struct_fields__", ()) else None
