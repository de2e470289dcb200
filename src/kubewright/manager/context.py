"""What a handler of an operator has at hand: `Context`.

It belongs to one call about one object, and everything it does is done in that object's name: children are
owned by it, events are about it, log lines carry it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
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
    """A logger that says which object a line is about."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Add the fields of the object; what the caller gives wins."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


@dataclass(slots=True)
class Context(Generic[T]):
    """One call about one object."""

    request: Request
    object: T
    client: CachedClient
    """Reads from the cache, sees its own writes; `client.uncached` asks the server."""
    cache: Cache
    recorder: EventRecorder
    log: ObjectLogger
    desired: DesiredState
    memory: dict[str, Any] = field(default_factory=dict)
    """What handlers of this object remember while the process lives; lost with it."""

    def event(self, type: EventType, reason: str, message: str) -> None:
        """Tell people something about the object."""
        self.recorder.event(self.object, type, reason, message)

    def own(self, child: ChildT) -> ChildT:
        """Make the object the controlling owner of a child that is about to be written."""
        if not child.metadata.namespace:
            child.metadata.namespace = self.object.metadata.namespace
        set_controller_reference(self.object, child)
        return child

    async def ensure(self, children: Iterable[MetaObject | Unstructured | dict[str, Any]]) -> EnsureResult:
        """Have exactly these children, as described and owned by the object; others it owns are deleted.

        Writes only what differs from the cache, with server-side apply.
        """
        return await self.desired.ensure(self.object, children)

    async def apply(self, child: ChildT, *, force: bool = True) -> ChildT:
        """Have a child as described, owned by the object (server-side apply)."""
        return await self.client.apply(self.own(child), force=force)

    async def update_status(self) -> None:
        """Write what was changed in the object's status, if anything was."""
        cls = type(self.object)
        if is_resource(cls) and not has_status(cls):
            raise TypeError(
                f"{cls.__name__} has no status: declare it as CustomResource[<spec>, {cls.__name__}Status]"
            )
        await self.client.update_status(self.object)
