"""Where requests come from.

A source begins to fill a queue when it is started and returns once its initial part is in it. `KindSource` is
a kind in the cache; `ChannelSource` is anything else: an async iterator of requests, or of things that a
handler maps to requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from kubewright.cache import Cache, Change, Informer

from .handlers import Handler
from .queue import LOW_PRIORITY, WorkQueue

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Hashable)


class Source(Protocol[R]):
    """Something that makes requests."""

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin; return when what was there at the beginning is in the queue."""

    async def stop(self) -> None:
        """End."""


class KindSource(Generic[R]):
    """The changes of a kind in the cache."""

    def __init__(
        self,
        cache: Cache,
        kind: Any,
        handler: Handler[R],
        predicates: Sequence[Callable[[Change], bool]] = (),
        *,
        priority: int | None = None,
        required: bool = True,
    ) -> None:
        self.kind = kind
        self.required = required
        """Whether workers wait for it; a kind that may be installed later need not hold up the others."""
        self._cache = cache
        self._handler = handler
        self._predicates = tuple(predicates)
        self._priority = priority
        self._informer: Informer | None = None
        self._queue: WorkQueue[R] | None = None
        self._late: asyncio.Task[None] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Follow the kind; returns when the initial state is queued."""
        self._queue = queue
        self._informer = await self._cache.informer(self.kind)
        if self.required:
            await self._begin()
        else:
            self._late = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        assert self._informer is not None
        await self._informer.wait_for_sync()
        self._informer.add_handler(self._take)

    async def stop(self) -> None:
        """Stop listening; the informer belongs to the cache."""
        if self._late is not None:
            self._late.cancel()
            await asyncio.gather(self._late, return_exceptions=True)
        if self._informer is not None:
            try:
                self._informer.remove_handler(self._take)
            except ValueError:
                pass

    def _take(self, change: Change) -> None:
        for predicate in self._predicates:
            if not predicate(change):
                return
        queue = self._queue
        assert queue is not None
        priority = LOW_PRIORITY if change.initial else self._priority
        for request in self._handler(change):
            queue.add(request, priority=priority)


class ChannelSource(Generic[R]):
    """Requests from an async iterator: a message queue, a webhook, a clock."""

    def __init__(
        self,
        items: AsyncIterable[Any],
        handler: Callable[[Any], Iterable[R]] | None = None,
        *,
        name: str = "channel",
    ) -> None:
        self.name = name
        self._items = items
        self._handler = handler
        self._task: asyncio.Task[None] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._read(queue))

    async def _read(self, queue: WorkQueue[R]) -> None:
        try:
            async for item in self._items:
                for request in self._handler(item) if self._handler is not None else (item,):
                    queue.add(request)
        except Exception:
            logger.exception("%s: the source has failed and sends no more requests", self.name)

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
