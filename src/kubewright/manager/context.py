"""`Context`: what a function of an operator needs to process one object.

It belongs to one call for one object: objects that it creates are owned by that object, and events and log
lines refer to it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kubewright.api.declarations import has_status, is_resource
from kubewright.api.meta import MetaObject
from kubewright.api.owners import set_controller_reference
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, CachedClient
from kubewright.controller.desired_state import DesiredState, EnsureResult
from kubewright.controller.request import Request

from .events import EventRecorder, EventType

T = TypeVar("T", bound=MetaObject)
ChildT = TypeVar("ChildT", bound=MetaObject)


class ObjectLogger(logging.LoggerAdapter[logging.Logger]):
    """Logger that adds the fields of an object to every line."""

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the fields of the object; fields of the call take precedence."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


@dataclass(slots=True)
class Context(Generic[T]):
    """One call for one object."""

    request: Request
    object: T
    client: CachedClient
    """Reads from the cache, including own writes; `client.uncached` reads from the API server."""
    cache: Cache
    recorder: EventRecorder
    log: ObjectLogger
    desired: DesiredState
    memory: dict[str, Any] = field(default_factory=dict)
    """Values that functions keep for this object between calls; lost when the process ends."""

    def event(self, type: EventType, reason: str, message: str) -> None:
        """Record an event about the object."""
        self.recorder.event(self.object, type, reason, message)

    def own(self, child: ChildT) -> ChildT:
        """Set the object as the controlling owner of a child, before the child is written."""
        if not child.metadata.namespace:
            child.metadata.namespace = self.object.metadata.namespace
        set_controller_reference(self.object, child)
        return child

    async def ensure(self, children: Iterable[MetaObject | Unstructured | dict[str, Any]]) -> EnsureResult:
        """Apply these children, owned by the object, and delete others of the owned kinds that it controls.

        Uses server-side apply, only for children that differ from the cache.
        """
        return await self.desired.ensure(self.object, children)

    async def apply(self, child: ChildT, *, force: bool = True) -> ChildT:
        """Apply a child, owned by the object (server-side apply)."""
        return await self.client.apply(self.own(child), force=force)

    async def update_status(self) -> None:
        """Write the changes in the status of the object."""
        cls = type(self.object)
        if is_resource(cls) and not has_status(cls):
            raise TypeError(
                f"{cls.__name__} has no status: declare it as CustomResource[<spec>, {cls.__name__}Status]"
            )
        await self.client.update_status(self.object)
