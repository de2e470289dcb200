"""The reconcile loop: sources fill a queue, workers empty it.

Sources start first, all at once, and workers start when every required source has told its initial state. A
worker takes a request, calls the reconciler and acts on the answer:

| what happened | what follows |
|---|---|
| returned `None` or `Result()` | the request is forgotten until something changes |
| `Result(requeue_after=...)` | forgotten, and queued again after that time |
| raised `TerminalError` | logged and counted, not tried again |
| raised anything else, or took too long | tried again with growing delays |

A request is never worked on twice at the same time. On `stop` the workers finish what they hold.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from .controller_metrics import ControllerMetrics
from .queue import QueueShutDown, Taken, WorkQueue
from .queue_metrics import PrometheusQueueMetrics
from .rate_limiters import RateLimiter
from .request import Result, TerminalError
from .sources import Source

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Hashable)

reconcile_id: contextvars.ContextVar[str] = contextvars.ContextVar("kubewright_reconcile_id", default="")
"""Identifies one call of a reconciler in logs and traces."""


class SyncTimeout(Exception):
    """A source did not become ready in time; the message says which and why."""


class Controller(Generic[R]):
    """Calls `reconcile` for every request that its sources make.

    `reconcile` may be a coroutine function, or a plain one, which then runs in a thread.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[R], Awaitable[Result | None]] | Callable[[R], Result | None],
        *,
        workers: int = 1,
        limiter: RateLimiter[R] | None = None,
        timeout: float | None = None,
        sync_timeout: float = 120.0,
        needs_leader: bool = True,
        warm_up: bool = False,
        recover: bool = True,
        log_fields: Callable[[R], dict[str, Any]] | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name!r}: workers must be at least 1")
        self.name = name
        self.workers = workers
        self.timeout = timeout
        self.sync_timeout = sync_timeout
        self.needs_leader = needs_leader
        """Whether it runs only where the manager is the leader."""
        self.warms_up = warm_up
        """Whether its sources are started before leadership, so that taking over is quick."""
        self.recover = recover
        """Whether an unexpected exception is retried; otherwise it ends the controller."""
        self.queue: WorkQueue[R] | None = None
        self._reconcile = reconcile
        self._is_async = asyncio.iscoroutinefunction(reconcile) or asyncio.iscoroutinefunction(
            getattr(reconcile, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        self._limiter = limiter
        self._log_fields = log_fields
        self._sources: list[Source[R]] = []
        self._metrics = ControllerMetrics(name, workers)
        self._started = False
        self._running = False
        self._id_prefix = f"{random.getrandbits(32):08x}"
        self._ids = itertools.count(1)
        self._said: dict[R, str] = {}
        self._ready = asyncio.Event()

    def watch(self, source: Source[R]) -> None:
        """Add a source. One that is added to a running controller starts at once."""
        self._sources.append(source)
        if self.queue is not None:
            task = asyncio.ensure_future(source.start(self.queue))
            task.add_done_callback(_report)

    @property
    def ready(self) -> bool:
        """Whether the sources are in step and the workers run."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Wait until the workers run."""
        await self._ready.wait()

    async def warm_up(self) -> None:
        """Start the sources and wait for them; `run` then has only the workers left to start."""
        if self._started:
            return
        self._started = True
        self.queue = WorkQueue(self.name, limiter=self._limiter, metrics=PrometheusQueueMetrics(self.name))
        await asyncio.gather(*(self._start(source) for source in list(self._sources)))

    async def _start(self, source: Source[R]) -> None:
        assert self.queue is not None
        try:
            async with asyncio.timeout(self.sync_timeout):
                await source.start(self.queue)
        except TimeoutError:
            kind = getattr(source, "kind", None) or getattr(source, "name", source)
            informer = getattr(source, "_informer", None)
            why = getattr(informer, "last_error", None) or "no answer yet"
            raise SyncTimeout(
                f"controller {self.name!r}: {getattr(kind, '__name__', kind)} was not in step within "
                f"{self.sync_timeout:g} s: {why}"
            ) from None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then let the workers finish what they hold."""
        if self._running:
            raise RuntimeError(f"controller {self.name!r} is running already; make another one")
        self._running = True
        await self.warm_up()
        assert self.queue is not None
        tasks = [asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self.workers)]
        stopping = asyncio.create_task(stop.wait())
        self._ready.set()
        try:
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            await self.queue.drain()
            await asyncio.gather(*tasks)
            for task in done - {stopping}:
                task.result()
        finally:
            self._ready.clear()
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            for source in self._sources:
                await source.stop()

    async def _work(self) -> None:
        queue = self.queue
        assert queue is not None
        while True:
            try:
                taken = await queue.get()
            except QueueShutDown:
                return
            self._metrics.active(1)
            try:
                await self._process(queue, taken)
            finally:
                self._metrics.active(-1)
                queue.done(taken.key)

    async def _process(self, queue: WorkQueue[R], taken: Taken[R]) -> None:
        request = taken.key
        token = reconcile_id.set(f"{self._id_prefix}-{next(self._ids)}")
        started = time.perf_counter()
        outcome = "success"
        try:
            result = await self._call(request)
        except TerminalError as error:
            outcome = "terminal"
            queue.forget(request)
            self._log_failure(request, error, "not trying again")
        except Exception as error:
            outcome = "timeout" if isinstance(error, _ReconcileTimeout) else "error"
            if not self.recover and outcome == "error":
                raise
            self._log_failure(request, error, "will try again")
            queue.add(request, rate_limited=True, priority=taken.priority)
        else:
            self._said.pop(request, None)
            queue.forget(request)
            if result is not None and result.delay > 0:
                outcome = "requeue_after"
                priority = taken.priority if result.priority is None else result.priority
                queue.add(request, after=result.delay, priority=priority)
        finally:
            self._metrics.observe(outcome, time.perf_counter() - started)
            reconcile_id.reset(token)

    async def _call(self, request: R) -> Result | None:
        if self.timeout is None:
            return await self._invoke(request)
        try:
            async with asyncio.timeout(self.timeout) as deadline:
                return await self._invoke(request)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise _ReconcileTimeout(f"took longer than {self.timeout:g} s") from None

    async def _invoke(self, request: R) -> Result | None:
        if self._is_async:
            return await self._reconcile(request)  # type: ignore[misc, no-any-return]
        return await asyncio.to_thread(self._reconcile, request)  # type: ignore[arg-type]

    def _log_failure(self, request: R, error: BaseException, what_next: str) -> None:
        """The whole traceback the first time, one line while the same thing goes on."""
        text = f"{type(error).__name__}: {error}"
        fields = {"controller": self.name, "request": str(request), "reconcile_id": reconcile_id.get()}
        if self._log_fields is not None:
            fields.update(self._log_fields(request))
        first = self._said.get(request) != text
        self._said[request] = text
        logger.error(
            "%s %s: %s; %s",
            self.name,
            request,
            text,
            what_next,
            exc_info=error if first and not isinstance(error, _ReconcileTimeout) else None,
            extra=fields,
        )


class _ReconcileTimeout(Exception):
    """The controller's own deadline, as opposed to a timeout inside the reconciler."""


def _report(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("a source could not be started", exc_info=task.exception())
