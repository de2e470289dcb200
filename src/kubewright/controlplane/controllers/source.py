"""Sources of a controller's requests: events of the control plane's informers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from kubewright.controller.queue import LOW_PRIORITY

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.controller.queue import WorkQueue
    from kubewright.controlplane.aggregation.informers import AggregatedInformers
    from kubewright.controlplane.informers import Informers, Needs, ResourceEvent

R = TypeVar("R", bound=Hashable)


class InformerSource(Generic[R]):
    """Requests that `handler` returns for each event of one resource or, without one, of all.

    A handler for all resources sees only metadata. Existing objects have low priority, as in
    `kubewright.controller.KindSource`.
    """

    last_error: BaseException | None = None

    def __init__(
        self,
        informers: Informers,
        resource: GroupResource | None,
        handler: Callable[[ResourceEvent], Iterable[R]],
        *,
        needs: Needs = "objects",
    ) -> None:
        self.name = str(resource) if resource is not None else "all resources"
        self._informers = informers
        self._resource = resource
        self._handler = handler
        self._needs = needs
        self._queue: WorkQueue[R] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin; return when the requests of existing objects are queued."""
        self._queue = queue
        resource = self._resource
        if resource is None:
            self._informers.add_handler_for_all(self._handle)
        else:
            self._informers.add_handler(resource.group, resource.resource, self._handle, needs=self._needs)
        await self._informers.wait_for_sync(resource)

    async def stop(self) -> None:
        """Stop receiving events."""
        if self._queue is None:
            return
        resource = self._resource
        if resource is None:
            self._informers.remove_handler_for_all(self._handle)
        else:
            self._informers.remove_handler(resource.group, resource.resource, self._handle)

    def _handle(self, event: ResourceEvent) -> None:
        queue = self._queue
        assert queue is not None
        priority = LOW_PRIORITY if event.initial else 0
        for request in self._handler(event):
            queue.add(request, priority=priority)


class AggregatedSource(Generic[R]):
    """Requests that `handler` returns for each object of the extension API servers.

    It starts when the APIServices are known; the objects of their servers are received later.
    """

    name = "aggregated resources"
    last_error: BaseException | None = None

    def __init__(
        self, informers: AggregatedInformers, handler: Callable[[ResourceEvent], Iterable[R]]
    ) -> None:
        self._informers = informers
        self._handler = handler
        self._queue: WorkQueue[R] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin to receive events."""
        self._queue = queue
        await self._informers.wait_for_sync()
        self._informers.add_handler_for_all(self._handle)

    async def stop(self) -> None:
        """Stop receiving events."""
        self._informers.remove_handler_for_all(self._handle)

    def _handle(self, event: ResourceEvent) -> None:
        assert self._queue is not None
        for request in self._handler(event):
            self._queue.add(request, priority=LOW_PRIORITY if event.initial else 0)
