"""Sources of requests.

`start` begins to fill a queue and returns when the initial objects are queued. `KindSource` watches a kind
through the cache; `ChannelSource` reads an async iterator of requests, or of items that a handler maps to
requests.

Objects of the initial list and of resyncs are queued with low priority, so that a current change does not
wait behind ten thousand existing objects. Predicates see a resync as they see the initial list, an object
without an old version: what was reconciled after a start is reconciled again in each resync period, also if a
predicate accepts only changes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from kubewright.api.errors import APIError
from kubewright.cache.informers.informer import Informer
from kubewright.cache.stores.store import ObjectChange
from kubewright.client.errors import ConnectionFailed
from kubewright.client.kind_types import AnyKind, MetadataKind
from kubewright.tracebacks import location_of, trim_traceback

from .causes import SOURCE, Cause, Causes, Trigger
from .event_handlers import EventHandler
from .failures import describe
from .queues.queue import LOW_PRIORITY, WorkQueue

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Hashable)

MISSING_KIND_RETRY_SECONDS = 10.0
"""Seconds between attempts to start an informer for a kind that is not installed."""


class Source(Protocol[R]):
    """Adds requests to a work queue."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def last_error(self) -> BaseException | None:
        """The error that keeps it from syncing, if any."""

    async def start(self, queue: WorkQueue[R]) -> None:
        """Start adding requests; return when the initial objects are queued."""

    async def stop(self) -> None:
        """Stop adding requests."""


class InformerProvider(Protocol):
    """The part of a cache that sources use."""

    async def informer(self, kind: AnyKind) -> Informer:
        """Return the started informer of a kind."""


class KindSource(Generic[R]):
    """Changes of a kind, from its informer."""

    def __init__(
        self,
        cache: InformerProvider,
        kind: AnyKind,
        handler: EventHandler[R] | None = None,
        predicates: Sequence[Callable[[ObjectChange], bool]] = (),
        *,
        prepare: Callable[[], Awaitable[EventHandler[R]]] | None = None,
        priority: int = 0,
        optional: bool = False,
        resync: float | None = None,
    ) -> None:
        """`optional`: the kind may be installed later; `start` does not wait for it.

        `resync`: seconds within which all objects are queued again; 0: never, `None`: the period of the kind.
        Instead of a handler, `prepare` can return one when the source starts.
        """
        if (handler is None) == (prepare is None):
            raise ValueError("KindSource requires either a handler or prepare=")
        self.kind = kind
        self.optional = optional
        self._kind_name = self.name
        self._missing: BaseException | None = None
        self._cache = cache
        self._handler = handler
        self._prepare = prepare
        self._predicates = tuple(predicates)
        self._priority = priority
        self._resync = resync
        self._informer: Informer | None = None
        self._queue: WorkQueue[R] | None = None
        self._replaying = False
        self._registered = False
        self._optional_start: asyncio.Task[None] | None = None
        self._pending: asyncio.Queue[tuple[Any, int, Causes]] | None = None
        self._pending_task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Name of the kind."""
        inner = self.kind.kind if isinstance(self.kind, MetadataKind) else self.kind
        return str(getattr(inner, "__name__", inner))

    @property
    def last_error(self) -> BaseException | None:
        """The error that keeps it from syncing, if any."""
        return self._missing if self._informer is None else self._informer.last_error

    async def start(self, queue: WorkQueue[R]) -> None:
        """Watch the kind; return when the initial objects are queued, or immediately if it is optional."""
        self._queue = queue
        if self.optional:
            self._optional_start = asyncio.create_task(self._start_optional())
        else:
            await self._start_informer()

    async def _start_optional(self) -> None:
        try:
            await self._start_informer()
        except Exception as error:
            self._missing = error
            logger.exception("could not watch optional kind", extra={"kind": self.name})

    async def _start_informer(self) -> None:
        self._informer = informer = await self._find_informer()
        await informer.wait_for_sync()
        self._replaying = self._registered = True
        try:
            informer.add_handler(self._handle_change, resync=self._resync)
        finally:
            self._replaying = False
        if self._pending is not None:
            await self._pending.join()

    async def _find_informer(self) -> Informer:
        while True:
            try:
                if self._prepare is not None:
                    self._handler = await self._prepare()
                return await self._cache.informer(self.kind)
            except (APIError, ConnectionFailed, LookupError) as error:
                if self._missing is None:
                    logger.warning(
                        "could not start informer, retrying", extra={"kind": self.name, "error": str(error)}
                    )
                self._missing = error
            await asyncio.sleep(MISSING_KIND_RETRY_SECONDS)

    def replay(self) -> None:
        """Call the handler for all objects in the cache again."""
        if self._informer is None or not self._registered:
            return
        self._informer.remove_handler(self._handle_change)
        self._replaying = True
        try:
            self._informer.add_handler(self._handle_change, resync=self._resync)
        finally:
            self._replaying = False

    async def stop(self) -> None:
        """Remove the handler from the informer, which belongs to the cache."""
        tasks = [task for task in (self._optional_start, self._pending_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._informer is not None and self._registered:
            self._registered = False
            self._informer.remove_handler(self._handle_change)

    def report_deletions(self) -> None:
        """Queue the requests for all objects as if they were deleted, because their cluster is removed."""
        if self._informer is not None and self._registered:
            for key, entry in list(self._informer.store.entries()):
                self._handle_change(ObjectChange(key, entry, None))

    def _handle_change(self, change: ObjectChange) -> None:
        handler = self._handler
        assert handler is not None
        try:
            is_resync = change.old is change.new
            seen = change._replace(old=None) if is_resync else change
            for predicate in self._predicates:
                if not predicate(seen):
                    return
            requests = handler(change)
            priority = self._priority
            trigger: Trigger = "watch"
            if self._replaying or is_resync:
                priority, trigger = LOW_PRIORITY, "list" if self._replaying else "resync"
            own_writes = self._informer.own_writes.revisions if self._informer is not None else None
            causes = (Cause(trigger, self._kind_name, change, own_writes),)
            if inspect.isawaitable(requests):
                self._enqueue_async(requests, priority, causes)
            else:
                self._enqueue(requests, priority, causes)
        except Exception as error:
            self._log_failure(error, change)

    def _log_failure(self, error: Exception, change: ObjectChange | None) -> None:
        """Report an error of a predicate, map function or event handler, from the user's function on."""
        trimmed = trim_traceback(error)
        logger.error(
            "predicate or event handler failed, the change is not reconciled",
            exc_info=trimmed,
            extra={
                **location_of(trimmed[2]),
                "controller": self._queue.name if self._queue is not None else "",
                "kind": self.name,
                "request": str(change.key) if change is not None else "",
                "error": describe(error),
            },
        )

    def _enqueue(self, requests: Iterable[R], priority: int, causes: Causes) -> None:
        queue = self._queue
        assert queue is not None
        for request in requests:
            queue.add(request, priority=priority, causes=causes)

    def _enqueue_async(self, requests: Any, priority: int, causes: Causes) -> None:
        """Await async event handlers one after the other, in the order of the changes."""
        if self._pending is None:
            self._pending = asyncio.Queue()
            self._pending_task = asyncio.create_task(self._await_pending(self._pending))
        self._pending.put_nowait((requests, priority, causes))

    async def _await_pending(self, changes: asyncio.Queue[tuple[Any, int, Causes]]) -> None:
        try:
            while True:
                requests, priority, causes = await changes.get()
                try:
                    self._enqueue(await requests, priority, causes)
                except Exception as error:
                    self._log_failure(error, causes[0].change)
                finally:
                    changes.task_done()
        finally:
            while not changes.empty():
                changes.get_nowait()[0].close()


class AddedKindsSource(Generic[R]):
    """Changes of kinds that are added while the controller runs, all with the same event handler."""

    name = "added kinds"
    last_error: BaseException | None = None

    def __init__(self, cache: InformerProvider, handler: EventHandler[R]) -> None:
        self._cache = cache
        self._handler = handler
        self._queue: WorkQueue[R] | None = None
        self._sources: dict[AnyKind, KindSource[R]] = {}

    async def start(self, queue: WorkQueue[R]) -> None:
        """Accept kinds."""
        self._queue = queue

    async def add(self, kind: AnyKind) -> None:
        """Watch a kind, if the controller runs and the kind was not added before."""
        if self._queue is None or kind in self._sources:
            return
        source = self._sources[kind] = KindSource(self._cache, kind, self._handler)
        try:
            await source.start(self._queue)
        except BaseException:
            del self._sources[kind]
            raise

    def replay(self) -> None:
        """Call the handler for all objects in the cache again."""
        for source in self._sources.values():
            source.replay()

    async def stop(self) -> None:
        """Stop watching all kinds."""
        self._queue = None
        for source in self._sources.values():
            await source.stop()
        self._sources.clear()


class ChannelSource(Generic[R]):
    """Requests from an async iterator, such as a message queue, an external webhook or a clock."""

    def __init__(
        self,
        items: AsyncIterable[Any],
        handler: Callable[[Any], Iterable[R]] | None = None,
        *,
        name: str = "channel",
        priority: int = 0,
    ) -> None:
        """Without a handler the items themselves are the requests."""
        self.name = name
        self.last_error: BaseException | None = None
        self._items = items
        self._handler = handler
        self._priority = priority
        self._task: asyncio.Task[None] | None = None

    async def start(self, queue: WorkQueue[R]) -> None:
        """Start reading."""
        self._task = asyncio.create_task(self._read(queue))

    async def _read(self, queue: WorkQueue[R]) -> None:
        try:
            async for item in self._items:
                requests: Any = (item,) if self._handler is None else self._handler(item)
                for request in await requests if inspect.isawaitable(requests) else requests:
                    queue.add(request, priority=self._priority, causes=SOURCE)
        except Exception as error:
            self.last_error = error
            logger.exception("source failed, no more requests from it", extra={"source": self.name})

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
