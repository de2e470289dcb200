"""Sources of a controller's requests: events of the control plane's informers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kubewright.controller.queues.queue import LOW_PRIORITY

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controller.queues.queue import WorkQueue
    from kubewright.controlplane.informers import AllHandler, Informers, Needs

R = TypeVar("R", bound=Hashable)


class _RequestQueue(Generic[R]):
    """Adds requests to a queue; existing objects have low priority, as in `kubewright.controller`."""

    last_error: BaseException | None = None

    def __init__(self) -> None:
        self._queue: WorkQueue[R] | None = None

    def _add(self, requests: Iterable[R], change: ObjectChange) -> None:
        assert self._queue is not None
        priority = LOW_PRIORITY if change.initial else 0
        for request in requests:
            self._queue.add(request, priority=priority)


class InformerSource(_RequestQueue[R]):
    """Requests that `handler` returns for each change of one resource."""

    def __init__(
        self,
        informers: Informers,
        resource: GroupResource,
        handler: Callable[[ObjectChange], Iterable[R]],
        *,
        needs: Needs = "objects",
    ) -> None:
        super().__init__()
        self.name = str(resource)
        self._informers = informers
        self._resource = resource
        self._handler = handler
        self._needs = needs

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin; return when the requests of existing objects are queued."""
        self._queue = queue
        self._informers.add_handler(*self._resource, self._handle, needs=self._needs)
        await self._informers.wait_for_sync(self._resource)

    async def stop(self) -> None:
        """Stop receiving events."""
        if self._queue is not None:
            self._informers.remove_handler(*self._resource, self._handle)

    def _handle(self, change: ObjectChange) -> None:
        self._add(self._handler(change), change)


class ResourceInformers(Protocol):
    """Informers of many resources: those of the server, or of extension API servers."""

    def add_handler_for_all(self, handler: AllHandler) -> None:
        """Call `handler` for every object of every resource."""

    def remove_handler_for_all(self, handler: AllHandler) -> None:
        """Stop calling a handler."""

    async def wait_for_sync(self) -> None:
        """Wait until the resources are known and, unless they are of other servers, listed."""


class AllResourcesSource(_RequestQueue[R]):
    """Requests that `handler` returns for each change of any resource, of which it receives metadata."""

    name = "all resources"

    def __init__(
        self, informers: ResourceInformers, handler: Callable[[Resource, ObjectChange], Iterable[R]]
    ) -> None:
        super().__init__()
        self._informers = informers
        self._handler = handler

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin; return when the requests of existing objects are queued."""
        self._queue = queue
        self._informers.add_handler_for_all(self._handle)
        await self._informers.wait_for_sync()

    async def stop(self) -> None:
        """Stop receiving events."""
        if self._queue is not None:
            self._informers.remove_handler_for_all(self._handle)

    def _handle(self, resource: Resource, change: ObjectChange) -> None:
        self._add(self._handler(resource, change), change)
