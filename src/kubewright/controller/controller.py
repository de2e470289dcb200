"""The reconcile loop: sources add requests to a queue, workers call the reconciler.

Sources start first, concurrently; workers start when the initial objects of every required source are queued.
A worker gets a request, calls the reconciler and acts on the result:

| reconciler | controller |
|---|---|
| returns `None` or `Result()` | resets the retry delay of the request |
| returns `Result(requeue_after=...)` | resets the retry delay and queues the request again after that time |
| raises `TerminalError` | logs and counts the error, does not retry |
| raises `TemporaryError(delay=...)` | logs and counts the error, retries after that time |
| raises another exception, or times out | retries with exponential backoff |

A request is never reconciled twice at the same time. On `stop` the workers finish their current requests;
queued ones are dropped, because the next start lists every object again.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import random
import time
import traceback
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kubewright.api.encoding.codec import DecodeError
from kubewright.api.errors import Conflict
from kubewright.cache.errors import NotSynced
from kubewright.cache.informers.own_writes import current_writer
from kubewright.callables import call, is_async
from kubewright.runnable import BaseRunnable, Ownership
from kubewright.tracebacks import trim_traceback
from kubewright.tracing.source import SpanPublisher, SpanSink, end_span, start_span
from kubewright.tracing.spans import ReconcileSpan, current_span

from .causes import REQUEUE, RETRY, Causes, describe_causes, merge_causes
from .controller_metrics import ControllerMetrics, Outcome, controller_metrics
from .failures import (
    InvalidResultError,
    ReconcileTimeout,
    SyncTimeout,
    WorkerStopped,
    describe,
    message_of,
    outcome_of,
)
from .hot_loops import HotLoop, HotLoops
from .queues.queue import QueueItem, QueueShutDown, WorkQueue
from .queues.queue_metrics import queue_metrics
from .queues.rate_limiters import RateLimiter
from .request import Result, TemporaryError, TerminalError

if TYPE_CHECKING:
    from .sources import Source

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Hashable)


Reconciler = Callable[[R], Awaitable[Result | None]] | Callable[[R], Result | None]

SYNC_TIMEOUT = 120.0
_YIELD_INTERVAL = 16
"""A worker yields to the event loop after this many reconciles, even if none of them awaited anything."""


class ReconcileInfo(NamedTuple):
    """Identifies one call of a reconciler."""

    controller: str
    request: Any
    id: str
    """Unique per call; in logs and traces."""
    causes: Causes = ()
    """Why the request was queued."""
    span: ReconcileSpan | None = None
    """Its span, if something subscribes to spans."""


current_reconcile: contextvars.ContextVar[ReconcileInfo | None] = contextvars.ContextVar(
    "kubewright_current_reconcile", default=None
)
"""The reconcile that the current task or thread belongs to; loggers add its fields."""


class Controller(BaseRunnable, Generic[R]):
    """Calls `reconcile` for every request from its sources.

    `reconcile` may be a coroutine function, or a plain one, which runs in a thread of this controller. It is
    called with the request or, if `read` is given, with its return value; if that is `None`, not at all.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconciler[R],
        *,
        workers: int = 1,
        rate_limiter: RateLimiter[R] | None = None,
        timeout: float | None = None,
        sync_timeout: float = SYNC_TIMEOUT,
        needs_leader: bool = True,
        warm_up: bool = False,
        recover: bool = True,
        sinks: tuple[SpanSink, ...] = (),
        read: Callable[[R], Awaitable[object]] | None = None,
        log_fields: Callable[[R], dict[str, object]] | None = None,
        register_metrics: bool = True,
    ) -> None:
        if not name:
            raise ValueError("a controller requires a name, which identifies it in logs and metrics")
        if workers < 1:
            raise ValueError(f"controller {name!r}: workers must be at least 1, not {workers}")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"controller {name!r}: timeout must be greater than 0, not {timeout:g}")
        self.name = name
        self.workers = workers
        self.timeout = timeout
        self.sync_timeout = sync_timeout
        self.needs_leader = needs_leader
        self.needs_warm_up = warm_up
        """Whether its sources start before leadership is acquired, which makes failover faster."""
        self.recover = recover
        """Whether programming errors are retried like other errors; otherwise they stop the controller."""
        self.queue: WorkQueue[R] | None = None
        self.metrics = controller_metrics(name) if register_metrics else ControllerMetrics()
        """Not in the process-wide registry if several controllers of a process can have the same name."""
        self.metrics.workers = workers
        self._reconcile: Callable[[Any], Any] = reconcile
        self._is_async = is_async(reconcile)
        self._threads: ThreadPoolExecutor | None = None
        self._rate_limiter = rate_limiter
        self.sinks = sinks
        """Subscribers of the spans of reconciles."""
        self.ownership: Ownership | None = None
        """Decides which requests this process reconciles; `None`: all of them."""
        self.slows_hot_loops = False
        """Whether a reconcile that triggers itself is delayed; set in development."""
        self.on_hot_loop: Callable[[R, HotLoop], Awaitable[None]] | None = None
        """Called with a request that triggers itself, after it was logged."""
        self._hot_loops: HotLoops[R] | None = None
        self.kind: tuple[str, str, str] = ("", "", "")
        """Group, version and kind of the objects, for spans."""
        self._register_metrics = register_metrics
        self._read = read
        self._log_fields = log_fields
        self._sources: list[Source[R]] = []
        self._warming: asyncio.Task[None] | None = None
        self._starting: set[asyncio.Task[None]] = set()
        self._running = False
        self._stopping = False
        self._id_prefix = f"{random.getrandbits(32):08x}"
        self._ids = itertools.count(1)
        self._last_errors: dict[R, str] = {}
        self._ready = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []

    def watch(self, source: Source[R]) -> None:
        """Add a source. If the controller is running, the source starts immediately."""
        self._sources.append(source)
        if self._warming is not None:
            task = asyncio.ensure_future(self._start(source))
            self._starting.add(task)
            task.add_done_callback(self._source_started)

    async def unwatch(self, source: Source[R]) -> None:
        """Remove a source and stop it; requests that it has queued are still reconciled."""
        if source in self._sources:
            self._sources.remove(source)
            await source.stop()

    def _source_started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error(
                "could not start source", extra={"controller": self.name, "error": str(task.exception())}
            )

    @property
    def failing(self) -> dict[R, str]:
        """Requests whose last reconcile failed, with the error."""
        return dict(self._last_errors)

    @property
    def ready(self) -> bool:
        """Whether the sources have synced and the workers are running."""
        return self._ready.is_set()

    def check_workers(self) -> None:
        """Raise `WorkerStopped` if a worker has ended although the controller was not stopped.

        `run` raises it as well, but only after the other workers have finished their requests, which may
        never happen. It is a health check of an operator.
        """
        for task in self._workers:
            if task.done():
                raise _worker_stopped(self.name, task)

    async def wait_ready(self) -> None:
        """Wait until the workers are running."""
        await self._ready.wait()

    async def warm_up(self) -> None:
        """Start the sources and wait until they have synced; `run` then only starts the workers."""
        if self._warming is None:
            metrics = queue_metrics(self.name) if self._register_metrics else None
            self.queue = WorkQueue(self.name, rate_limiter=self._rate_limiter, metrics=metrics)
            self._warming = asyncio.ensure_future(self._start_sources())
        await asyncio.shield(self._warming)

    async def stop_warm_up(self) -> None:
        """Stop the sources after a warm-up that is not followed by `run`."""
        if not self._running:
            await self._stop_sources()

    async def _start_sources(self) -> None:
        async with asyncio.TaskGroup() as starting:
            for source in self._sources:
                starting.create_task(self._start(source))

    async def _start(self, source: Source[R]) -> None:
        assert self.queue is not None
        try:
            async with asyncio.timeout(self.sync_timeout) as deadline:
                await source.start(self.queue)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise SyncTimeout(
                f"controller {self.name!r}: {source.name} did not sync within {self.sync_timeout:g} s: "
                f"{source.last_error or 'no response from the API server yet'}"
            ) from None

    def replay(self) -> None:
        """Queue the requests of all known objects again, with low priority."""
        for source in self._sources:
            replay = getattr(source, "replay", None)
            if replay is not None:
                replay()

    @property
    def publishers(self) -> tuple[SpanPublisher]:
        """Itself: it publishes the spans of reconciles."""
        return (self,)

    def share(self, ownership: Ownership) -> Callable[[], None]:
        """Reconcile only requests of `ownership`; return `replay`."""
        self.ownership = ownership
        return self.replay

    @property
    def is_idle(self) -> bool:
        """Whether no request is due or being processed."""
        return self.queue is None or self.queue.is_idle

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile until `stop` is set, then let the workers finish their current requests."""
        if self._running:
            raise RuntimeError(f"controller {self.name!r} has already been started; create another one")
        self._running = True
        stopping = asyncio.create_task(stop.wait())
        tasks: list[asyncio.Task[None]] = []
        try:
            warming = asyncio.ensure_future(self.warm_up())
            await asyncio.wait([stopping, warming], return_when=asyncio.FIRST_COMPLETED)
            if not warming.done():
                warming.cancel()
                return
            _raise_first(warming)
            assert self.queue is not None
            tasks += [asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self.workers)]
            self._workers = tasks
            self._ready.set()
            logger.info("started controller", extra={"controller": self.name, "workers": self.workers})
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if stopping in done:
                self._workers = []
            self.queue.shut_down()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in done - {stopping}:
                if task.cancelled():
                    raise _worker_stopped(self.name, task)
                await task
        finally:
            self._workers = []
            self._ready.clear()
            self._stopping = True
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            await self._stop_sources()
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    async def _stop_sources(self) -> None:
        starting = [*self._starting] if self._warming is None else [self._warming, *self._starting]
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        for source in list(self._sources):
            await source.stop()
        if self.queue is not None:
            self.queue.shut_down()

    async def _work(self) -> None:
        queue, metrics = self.queue, self.metrics
        assert queue is not None
        hot_loops = self._hot_loops
        if hot_loops is None:
            clock = asyncio.get_running_loop().time
            self._hot_loops = hot_loops = HotLoops(clock, self.name, slows_down=self.slows_hot_loops)
        turns = 0
        while True:
            turns += 1
            if turns > _YIELD_INTERVAL:
                turns = 1
                await asyncio.sleep(0)
            try:
                item = await queue.get()
            except QueueShutDown:
                return
            except asyncio.CancelledError:
                self._ignore_own_cancellation()
                continue
            if delay := hot_loops.delay(item.key, item.causes):
                queue.add(item.key, after=delay, priority=item.priority, causes=item.causes)
                queue.done(item.key)
                continue
            ownership = self.ownership
            if ownership is not None and not ownership.enter(item.key):
                queue.forget(item.key)
                queue.done(item.key)
                continue
            metrics.active += 1
            try:
                await self._process(queue, item)
                if (loop := hot_loops.count(item.key, item.causes)) is not None:
                    await self._report_hot_loop(item.key, loop)
            finally:
                metrics.active -= 1
                if ownership is not None:
                    ownership.leave(item.key)
                queue.done(item.key)

    async def _report_hot_loop(self, request: R, loop: HotLoop) -> None:
        self.metrics.hot_loops += 1
        fields = self._fields(request)
        fields |= {"reconciles": loop.reconciles, "seconds": loop.seconds}
        fields |= {"causes": loop.causes, "hint": loop.hint}
        logger.warning("reconcile triggers itself", extra=fields)
        if self.on_hot_loop is not None:
            try:
                await self.on_hot_loop(request, loop)
            except Exception as error:
                logger.warning(
                    "could not record an event", extra={**self._fields(request), "error": describe(error)}
                )

    def _ignore_own_cancellation(self) -> None:
        """Keep the worker after a reconciler has cancelled its own task; re-raise if the controller stops."""
        task = asyncio.current_task()
        if self._stopping or task is None:
            raise
        while task.cancelling():
            task.uncancel()

    async def _process(self, queue: WorkQueue[R], item: QueueItem[R]) -> None:
        request = item.key
        id_ = f"{self._id_prefix}-{next(self._ids)}"
        sinks = self.sinks
        span: ReconcileSpan | None = None
        failure: BaseException | None = None
        if sinks:
            span = ReconcileSpan(
                id_,
                self.name,
                request,
                kind=self.kind,
                causes=item.causes,
                wait=item.waited,
                priority=item.priority,
            )
            start_span(sinks, span)
        span_token = current_span.set(span)
        writer_token = current_writer.set((self.name, request))
        token = current_reconcile.set(ReconcileInfo(self.name, request, id_, item.causes, span))
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("reconciling", extra=self._fields(request))
        started = time.perf_counter()
        outcome: Outcome = "success"
        try:
            result = await self._call(request)
        except TerminalError as error:
            outcome, failure = "terminal", error
            queue.forget(request)
            self._log_failure(request, error, "reconcile failed with a terminal error, not retrying")
        except TemporaryError as error:
            outcome, failure = "error", error
            queue.forget(request)
            queue.add(request, after=error.delay, priority=item.priority, causes=_retry(item))
            fields = {**self._fields(request), "delay_seconds": error.delay, "error": message_of(error)}
            logger.warning("reconcile failed temporarily, retrying", extra=fields)
        except (Exception, asyncio.CancelledError) as error:
            failure = error
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                self._ignore_own_cancellation()
            outcome = outcome_of(error)
            if outcome == "panic" and not self.recover:
                raise
            queue.add(request, rate_limited=True, priority=item.priority, causes=_retry(item))
            self._log_failure(request, error, "reconcile failed, retrying")
        else:
            if self._last_errors:
                self._last_errors.pop(request, None)
            queue.forget(request)
            if result is not None and (delay := result.delay) > 0:
                outcome = "requeue_after"
                priority = item.priority if result.priority is None else result.priority
                queue.add(request, after=delay, priority=priority, causes=REQUEUE)
        finally:
            self.metrics.observe(outcome, time.perf_counter() - started)
            current_reconcile.reset(token)
            current_writer.reset(writer_token)
            current_span.reset(span_token)
            if span is not None:
                _finish_span(span, outcome, failure, queue.delay_of(request))
                end_span(sinks, span)
            failure = None  # with its traceback, it would be a reference cycle

    async def _call(self, request: R) -> Result | None:
        if self.timeout is None:
            result = await self._invoke(request)
        else:
            deadline = asyncio.timeout(self.timeout)
            try:
                async with deadline:
                    result = await self._invoke(request)
            except TimeoutError:
                if not deadline.expired():
                    raise
                raise ReconcileTimeout(f"reconcile took longer than {self.timeout:g} s") from None
        if result is not None and not isinstance(result, Result):
            name = getattr(self._reconcile, "__qualname__", self.name)
            raise InvalidResultError(
                f"{name}: a reconciler must return a Result or None, not {type(result).__name__}"
            )
        return result

    async def _invoke(self, request: R) -> Any:
        argument: Any = request
        if self._read is not None:
            argument = await self._read(request)
            if argument is None:
                return None
        if self._is_async:
            return await self._reconcile(argument)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix=self.name)
        return await call(self._reconcile, argument, executor=self._threads)

    def _fields(self, request: R) -> dict[str, object]:
        """Return the fields of a log line about the current reconcile."""
        fields: dict[str, object] = {"controller": self.name}
        object_fields = self._log_fields(request) if self._log_fields is not None else {}
        fields.update(object_fields or {"request": str(request)})
        info = current_reconcile.get()
        if info is not None:
            fields["reconcile_id"] = info.id
            if info.causes:
                fields["causes"] = describe_causes(info.causes)
        return fields

    def _log_failure(self, request: R, error: BaseException, message: str) -> None:
        """Log an error, with its traceback unless the previous error of the request was the same.

        A conflict is expected with concurrent writers and logged as information: the retry reads the new
        version.
        """
        text = describe(error)
        if isinstance(error, TerminalError) and error.__cause__ is not None and text.endswith(": "):
            text = describe(error.__cause__)
        fields = self._fields(request)
        fields["error"] = text
        repeated = self._last_errors.get(request) == text
        self._last_errors[request] = text
        without_traceback = (
            repeated
            or isinstance(error, InvalidResultError | ReconcileTimeout | Conflict)
            or isinstance(error.__cause__, DecodeError)
        )
        logger.log(
            logging.INFO if isinstance(error, Conflict) else logging.ERROR,
            message,
            exc_info=None if without_traceback else trim_traceback(error),
            extra=fields,
        )


def check_sources(controller: Controller[Any]) -> None:
    """Raise `NotSynced` with the reason if a controller has started and a source cannot sync.

    A controller with a kind that it is not allowed to watch waits for `sync_timeout`; until then this is a
    readiness check of an operator.
    """
    if controller._running and not controller.ready and not controller._stopping:
        failed = [f"{each.name}: {each.last_error}" for each in controller._sources if each.last_error]
        if failed:
            raise NotSynced(f"controller {controller.name!r} cannot start: {'; '.join(failed)}")


def _finish_span(
    span: ReconcileSpan, outcome: Outcome, failure: BaseException | None, delay: float | None
) -> None:
    """Complete a span; a delay of the request is its requeue, or the retry of a failed reconcile."""
    span.finish(failure)
    span.result = outcome
    span.requeue_after = delay if outcome != "success" else None
    if failure is None:
        return
    cause = failure.__cause__
    if isinstance(failure, TerminalError) and cause is not None and not message_of(failure):
        span.error = describe(cause)
    span.traceback = "".join(traceback.format_exception(*trim_traceback(failure)))


def _worker_stopped(controller: str, task: asyncio.Task[Any]) -> WorkerStopped:
    error = None if task.cancelled() else task.exception()
    reason = "was cancelled" if error is None else f"failed: {describe(error)}"
    return WorkerStopped(f"controller {controller!r}: worker {task.get_name()} {reason}")


def _retry(item: QueueItem[Any]) -> Causes:
    return item.causes if RETRY[0] in item.causes else merge_causes(item.causes, RETRY)


def _raise_first(task: asyncio.Future[None]) -> None:
    """Raise the exception of a task; of an exception group, the first one."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error
