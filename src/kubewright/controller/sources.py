"""Where requests come from.

A source begins to fill a queue when it is started and returns once its initial part is in it. `KindSource` is
a kind in the cache; `ChannelSource` is anything else: an async iterator of requests, or of things that a
handler maps to requests.

What was there before (the initial list) and what has not changed (a resync) is queued with low priority, so
that a change that happens now does not wait behind ten thousand objects of a start.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from kubewright.api.errors import APIError
from kubewright.cache.informer import Informer
from kubewright.cache.store import ObjectChange
from kubewright.client.errors import ConnectionFailed
from kubewright.client.kind_types import MetadataKind

from .event_handlers import EventHandler
from .queue import LOW_PRIORITY, WorkQueue

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Hashable)

ABSENT_RETRY = 10.0
"""How often to look whether a kind that was missing has been installed."""


class Source(Protocol[R]):
    """Something that makes requests."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    @property
    def trouble(self) -> BaseException | None:
        """Why it is not in step, if it is not."""

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin; return when what was there at the beginning is in the queue."""

    async def stop(self) -> None:
        """End."""


class Informers(Protocol):
    """The part of a cache that sources need."""

    async def informer(self, kind: Any) -> Informer:
        """The informer of a kind, started."""


class KindSource(Generic[R]):
    """The changes of a kind in the cache."""

    def __init__(
        self,
        cache: Informers,
        kind: Any,
        handler: EventHandler[R] | None = None,
        predicates: Sequence[Callable[[ObjectChange], bool]] = (),
        *,
        prepare: Callable[[], Awaitable[EventHandler[R]]] | None = None,
        priority: int = 0,
        optional: bool = False,
    ) -> None:
        """`optional`: the kind may be installed later and holds nobody up until then.

        Instead of a handler, `prepare` makes one when the source starts.
        """
        if (handler is None) == (prepare is None):
            raise ValueError("a kind needs a handler, or a function that prepares one")
        self.kind = kind
        self.optional = optional
        self._missing: BaseException | None = None
        self._cache = cache
        self._handler = handler
        self._prepare = prepare
        self._predicates = tuple(predicates)
        self._priority = priority
        self._informer: Informer | None = None
        self._queue: WorkQueue[R] | None = None
        self._initial = False
        self._listening = False
        self._late: asyncio.Task[None] | None = None
        self._mapping: asyncio.Queue[tuple[Any, int]] | None = None
        self._mapper: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The kind."""
        inner = self.kind.kind if isinstance(self.kind, MetadataKind) else self.kind
        return str(getattr(inner, "__name__", inner))

    @property
    def trouble(self) -> BaseException | None:
        """Why it is not in step, if it is not."""
        return self._missing if self._informer is None else self._informer.last_error

    async def start(self, queue: WorkQueue[R]) -> None:
        """Follow the kind; returns when the initial state is queued, or at once if it is optional."""
        self._queue = queue
        if self.optional:
            self._late = asyncio.create_task(self._begin_late())
        else:
            await self._begin()

    async def _begin_late(self) -> None:
        try:
            await self._begin()
        except Exception as error:
            self._missing = error
            logger.exception("%s is not followed", self.name)

    async def _begin(self) -> None:
        self._informer = informer = await self._find_informer()
        await informer.wait_for_sync()
        self._initial = self._listening = True
        try:
            informer.add_handler(self._take)
        finally:
            self._initial = False
        if self._mapping is not None:
            await self._mapping.join()

    async def _find_informer(self) -> Informer:
        while True:
            try:
                if self._prepare is not None:
                    self._handler = await self._prepare()
                return await self._cache.informer(self.kind)
            except (APIError, ConnectionFailed, LookupError) as error:
                if self._missing is None:
                    logger.warning("%s cannot be followed yet, looking again: %s", self.name, error)
                self._missing = error
            await asyncio.sleep(ABSENT_RETRY)

    async def stop(self) -> None:
        """Stop listening; the informer belongs to the cache."""
        tasks = [task for task in (self._late, self._mapper) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._informer is not None and self._listening:
            self._listening = False
            self._informer.remove_handler(self._take)

    def _take(self, change: ObjectChange) -> None:
        handler = self._handler
        assert handler is not None
        try:
            for predicate in self._predicates:
                if not predicate(change):
                    return
            requests = handler(change)
            priority = LOW_PRIORITY if self._initial or _is_unchanged(change) else self._priority
            if inspect.isawaitable(requests):
                self._map_later(requests, priority)
            else:
                self._enqueue(requests, priority)
        except Exception:
            logger.exception("%s %s: a predicate or mapping failed", self.name, change.key)

    def _enqueue(self, requests: Iterable[R], priority: int) -> None:
        queue = self._queue
        assert queue is not None
        for request in requests:
            queue.add(request, priority=priority)

    def _map_later(self, requests: Any, priority: int) -> None:
        """An async mapping: one after the other, in the order of the changes."""
        if self._mapping is None:
            self._mapping = asyncio.Queue()
            self._mapper = asyncio.create_task(self._map(self._mapping))
        self._mapping.put_nowait((requests, priority))

    async def _map(self, changes: asyncio.Queue[tuple[Any, int]]) -> None:
        try:
            while True:
                requests, priority = await changes.get()
                try:
                    self._enqueue(await requests, priority)
                except Exception:
                    logger.exception("%s: mapping a change to requests failed", self.name)
                finally:
                    changes.task_done()
        finally:
            while not changes.empty():
                changes.get_nowait()[0].close()


class ChannelSource(Generic[R]):
    """Requests from an async iterator: a message queue, a webhook, a clock."""

    def __init__(
        self,
        items: AsyncIterable[Any],
        handler: Callable[[Any], Iterable[R]] | None = None,
        *,
        name: str = "channel",
        priority: int = 0,
    ) -> None:
        """Without a handler the items are the requests."""
        self.name = name
        self.trouble: BaseException | None = None
        self._items = items
        self._handler = handler
        self._priority = priority
        self._task: asyncio.Task[None] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._read(queue))

    async def _read(self, queue: WorkQueue[R]) -> None:
        try:
            async for item in self._items:
                requests: Any = (item,) if self._handler is None else self._handler(item)
                for request in await requests if inspect.isawaitable(requests) else requests:
                    queue.add(request, priority=self._priority)
        except Exception as error:
            self.trouble = error
            logger.exception("%s: the source has failed and sends no more requests", self.name)

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _is_unchanged(change: ObjectChange) -> bool:
    return change.old is not None and change.new is not None and change.old.revision == change.new.revision
