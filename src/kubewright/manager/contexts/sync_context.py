"""`SyncContext` and `SyncCachedClient`: the context and the client of plain (`def`) functions.

A plain function runs in a thread. Its calls run on the event loop of the operator and block the thread until
they have finished:

    @operator.reconcile(Shop, owns=(ConfigMap,))
    def reconcile(shop: Shop, ctx: SyncContext[Shop]) -> None:
        ctx.ensure([config_for(shop)])
        shop.status.ready = True
        ctx.update_status()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.cache import CachedClient
from kubewright.client.sync.event_loop_thread import EventLoopThread
from kubewright.client.sync.sync_client import SyncClient
from kubewright.controller.children.desired_state import EnsureResult

from .context import BaseContext, Context

T = TypeVar("T", bound=MetaObject | Unstructured)
ChildT = TypeVar("ChildT", bound=MetaObject)


class SyncCachedClient(SyncClient):
    """A `SyncClient` that reads from the cache of an operator, including own writes."""

    async_client: CachedClient

    @property
    def uncached(self) -> SyncCachedClient:
        """The same client with reads from the API server."""
        return type(self)(self.async_client.uncached, self._thread)

    def close(self) -> None:
        """Do nothing: the connections belong to the operator."""


def sync_client(client: CachedClient, loop: asyncio.AbstractEventLoop) -> SyncCachedClient:
    """Return a client for threads that runs the calls of `client` on `loop`, which must be running."""
    return SyncCachedClient(client, EventLoopThread(loop))


@dataclass(slots=True, kw_only=True)
class SyncContext(BaseContext[T], Generic[T]):
    """One call of a plain function for one object; its methods block. Not for the thread of the loop."""

    client: SyncCachedClient
    """Reads from the cache, including own writes; `client.uncached` reads from the API server."""
    context: Context[T]
    """The context whose coroutines run on the event loop."""

    @property
    def memory(self) -> dict[str, Any]:
        """Values that functions keep for this object between calls; lost when the process ends."""
        return self.context.memory

    @classmethod
    def of(cls, context: Context[T], client: SyncCachedClient) -> SyncContext[T]:
        """Return the synchronous form of a context."""
        return cls(
            request=context.request,
            object=context.object,
            client=client,
            cache=context.cache,
            recorder=context.recorder,
            log=context.log,
            desired=context.desired,
            causes=context.causes,
            context=context,
        )

    def ensure(
        self,
        children: Iterable[MetaObject | Unstructured | dict[str, Any]],
        *,
        adopt: bool = False,
        prune: bool = True,
    ) -> EnsureResult:
        """Apply these children and delete others; see `Context.ensure`."""
        return self.client.run(self.context.ensure(children, adopt=adopt, prune=prune))

    def apply(self, child: ChildT, *, force: bool = True) -> ChildT:
        """Apply a child, owned by the object. Deprecated: use `ensure([child], prune=False)`."""
        return self.client.run(self.context.apply(child, force=force))

    def update_status(self) -> None:
        """Write the changes in the status of the object; send nothing if it did not change."""
        self.client.run(self.context.update_status())
