"""Sources of a controller's requests: events of the control plane's informers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kubewright.controller.queues.queue import LOW_PRIORITY

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.resources.resource import Resource
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controller.queues.queue import WorkQueue
    from kubewright.controlplane.informers import AllHandler, Informers, Needs

R = TypeVar("R", bound=Hashable)


class ChangeSource(Generic[R]):
    """Requests that `handler` returns for each change; existing objects have low priority."""

    last_error: BaseException | None = None

    def __init__(
        self,
        name: str,
        handler: Callable[..., Iterable[R]],
        *,
        subscribe: Callable[[Callable[..., None]], None],
        unsubscribe: Callable[[Callable[..., None]], None],
        wait_for_sync: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        self._handler = handler
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._wait_for_sync = wait_for_sync
        self._queue: WorkQueue[R] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin; return when the requests of existing objects are queued."""
        self._queue = queue
        self._subscribe(self._handle)
        await self._wait_for_sync()

    async def stop(self) -> None:
        """Stop receiving events."""
        if self._queue is not None:
            self._unsubscribe(self._handle)

    def _handle(self, *arguments: Any) -> None:
        for request in self._handler(*arguments):
            assert self._queue is not None
            self._queue.add(request, priority=LOW_PRIORITY if arguments[-1].initial else 0)


def resource_source(
    informers: Informers,
    resource: GroupResource,
    handler: Callable[[ObjectChange], Iterable[R]],
    *,
    needs: Needs = "objects",
) -> ChangeSource[R]:
    """Return the source of the changes of one resource."""
    return ChangeSource(
        str(resource),
        handler,
        subscribe=partial(informers.add_handler, *resource, needs=needs),
        unsubscribe=partial(informers.remove_handler, *resource),
        wait_for_sync=partial(informers.wait_for_sync, resource),
    )


class ResourceInformers(Protocol):
    """Informers of many resources: those of the server, or of extension API servers."""

    def add_handler_for_all(self, handler: AllHandler) -> None:
        """Call `handler` for every object of every resource."""

    def remove_handler_for_all(self, handler: AllHandler) -> None:
        """Stop calling a handler."""

    async def wait_for_sync(self) -> None:
        """Wait until the resources are known and, unless they are of other servers, listed."""


def all_resources_source(
    informers: ResourceInformers, handler: Callable[[Resource, ObjectChange], Iterable[R]]
) -> ChangeSource[R]:
    """Return the source of the changes of all resources, of which `handler` receives metadata."""
    return ChangeSource(
        "all resources",
        handler,
        subscribe=informers.add_handler_for_all,
        unsubscribe=informers.remove_handler_for_all,
        wait_for_sync=informers.wait_for_sync,
    )
