"""The reconcile loop: sources fill a queue, workers empty it.

Sources start first, all at once, and workers start when every required source has told its initial state. A
worker takes a request, calls the reconciler and acts on the answer:

| what happened | what follows |
|---|---|
| returned `None` or `Result()` | the request is forgotten until something changes |
| `Result(requeue_after=...)` | forgotten, and queued again after that time |
| raised `TerminalError` | logged and counted, not tried again |
| raised anything else, or took too long | tried again with growing delays |

A request is never worked on twice at the same time. On `stop` the workers finish what they hold; the rest is
left for the next start, which sees every object again.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kubewright.api.errors import APIError, Conflict
from kubewright.callables import call, is_async

from .controller_metrics import ControllerMetrics, Outcome, controller_metrics
from .queue import QueueItem, QueueShutDown, WorkQueue
from .queue_metrics import queue_metrics
from .rate_limiters import RateLimiter
from .request import Result, TerminalError

if TYPE_CHECKING:
    from .sources import Source

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Hashable)
Reconciler = Callable[[R], Awaitable[Result | None]] | Callable[[R], Result | None]

SYNC_TIMEOUT = 120.0
_TURNS = 16
"""After so many reconciles that waited for nothing, a worker lets others have the event loop."""
_CALLERS = (
    __name__,
    call.__module__,
    "asyncio.futures",
    "concurrent.futures.thread",
    "kubewright.manager.operator_runtime",
    "kubewright.manager.injection",
)
"""Modules between a controller and what users write."""
_PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    RecursionError,
    SyntaxError,
    TypeError,
)


class ReconcileInfo(NamedTuple):
    """One call of a reconciler."""

    controller: str
    request: Any
    id: str
    """Identifies the call in logs and traces."""


current_reconcile: contextvars.ContextVar[ReconcileInfo | None] = contextvars.ContextVar(
    "kubewright_current_reconcile", default=None
)
"""What is being reconciled here, in this task or thread; loggers take their fields from it."""


class SyncTimeout(Exception):
    """A source did not become ready in time; the message says which and why."""


class Controller(Generic[R]):
    """Calls `reconcile` for every request that its sources make.

    `reconcile` may be a coroutine function, or a plain one, which then runs in a thread of this controller.
    It is called with the request, or with what `read` makes of it; for `None` nothing is to be done.
    """

    group = "others"

    def __init__(
        self,
        name: str,
        reconcile: Reconciler[R],
        *,
        workers: int = 1,
        limiter: RateLimiter[R] | None = None,
        timeout: float | None = None,
        sync_timeout: float = SYNC_TIMEOUT,
        needs_leader: bool = True,
        warm_up: bool = False,
        recover: bool = True,
        tracer: Any = None,
        register_metrics: bool = True,
        read: Callable[[R], Awaitable[Any]] | None = None,
        log_fields: Callable[[R], dict[str, Any]] | None = None,
    ) -> None:
        if not name:
            raise ValueError("a controller needs a name: logs and metrics tell controllers apart by it")
        if workers < 1:
            raise ValueError(f"controller {name!r}: workers must be at least 1, not {workers}")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"controller {name!r}: the timeout must be above 0, not {timeout:g}")
        self.name = name
        self.workers = workers
        self.timeout = timeout
        self.sync_timeout = sync_timeout
        self.needs_leader = needs_leader
        """Whether it runs only where the manager is the leader."""
        self.needs_warm_up = warm_up
        """Whether its sources are started before leadership, so that taking over is quick."""
        self.recover = recover
        """Whether a programming error is retried as any other; otherwise it ends the controller."""
        self.queue: WorkQueue[R] | None = None
        self.metrics = controller_metrics(name) if register_metrics else ControllerMetrics()
        """Not in the process-wide registry if several controllers of one process may have this name."""
        self.metrics.workers = workers
        self._reconcile = reconcile
        self._is_async = is_async(reconcile)
        self._threads: ThreadPoolExecutor | None = None
        self._limiter = limiter
        self._tracer = tracer
        self._register_metrics = register_metrics
        self._read = read
        self._log_fields = log_fields
        self._sources: list[Source[R]] = []
        self._warming: asyncio.Task[None] | None = None
        self._late: set[asyncio.Task[None]] = set()
        self._running = False
        self._id_prefix = f"{random.getrandbits(32):08x}"
        self._ids = itertools.count(1)
        self._said: dict[R, str] = {}
        self._ready = asyncio.Event()

    def watch(self, source: Source[R]) -> None:
        """Add a source. One that is added to a running controller starts at once."""
        self._sources.append(source)
        if self._warming is not None:
            task = asyncio.ensure_future(self._start(source))
            self._late.add(task)
            task.add_done_callback(self._late_source_started)

    def _late_source_started(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s: a source could not be started: %s", self.name, task.exception())

    @property
    def ready(self) -> bool:
        """Whether the sources are in step and the workers run."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Wait until the workers run."""
        await self._ready.wait()

    async def warm_up(self) -> None:
        """Start the sources and wait for them; `run` then has only the workers left to start."""
        if self._warming is None:
            metrics = queue_metrics(self.name) if self._register_metrics else None
            self.queue = WorkQueue(self.name, limiter=self._limiter, metrics=metrics)
            self._warming = asyncio.ensure_future(self._start_sources())
        await asyncio.shield(self._warming)

    async def stop_warm_up(self) -> None:
        """Undo a warm-up that no `run` follows."""
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
                f"controller {self.name!r}: {source.name} was not in step within "
                f"{self.sync_timeout:g} s: {source.trouble or 'no answer yet'}"
            ) from None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then let the workers finish what they hold."""
        if self._running:
            raise RuntimeError(f"controller {self.name!r} has been started already; make another one")
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
            self._ready.set()
            logger.info(
                "controller %s works, with %d worker%s", self.name, self.workers, "s" * (self.workers != 1)
            )
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            self.queue.shut_down()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in done - {stopping}:
                await task
        finally:
            self._ready.clear()
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            await self._stop_sources()
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    async def _stop_sources(self) -> None:
        starting = [*self._late] if self._warming is None else [self._warming, *self._late]
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        for source in self._sources:
            await source.stop()
        if self.queue is not None:
            self.queue.shut_down()

    async def _work(self) -> None:
        queue, metrics = self.queue, self.metrics
        assert queue is not None
        turns = 0
        while True:
            try:
                taken = await queue.get()
            except QueueShutDown:
                return
            metrics.active += 1
            try:
                await self._process(queue, taken)
            finally:
                metrics.active -= 1
                queue.done(taken.key)
            turns += 1
            if turns == _TURNS:
                turns = 0
                await asyncio.sleep(0)

    async def _process(self, queue: WorkQueue[R], taken: QueueItem[R]) -> None:
        request = taken.key
        token = current_reconcile.set(
            ReconcileInfo(self.name, request, f"{self._id_prefix}-{next(self._ids)}")
        )
        started = time.perf_counter()
        outcome: Outcome = "success"
        try:
            result = await (self._call(request) if self._tracer is None else self._traced(request))
        except TerminalError as error:
            outcome = "terminal"
            queue.forget(request)
            self._log_failure(request, error, "not trying again until something changes")
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            outcome = _outcome_of(error)
            if outcome == "panic" and not self.recover:
                raise
            queue.add(request, rate_limited=True, priority=taken.priority)
            self._log_failure(request, error, "will try again")
        else:
            if self._said:
                self._said.pop(request, None)
            queue.forget(request)
            if result is not None and (delay := result.delay) > 0:
                outcome = "requeue_after"
                priority = taken.priority if result.priority is None else result.priority
                queue.add(request, after=delay, priority=priority)
        finally:
            self.metrics.observe(outcome, time.perf_counter() - started)
            current_reconcile.reset(token)

    async def _traced(self, request: R) -> Result | None:
        now = current_reconcile.get()
        assert now is not None
        with self._tracer.start_as_current_span(
            f"reconcile {self.name}",
            attributes={
                "kubewright.controller": self.name,
                "kubewright.request": str(request),
                "kubewright.reconcile_id": now.id,
            },
        ):
            return await self._call(request)

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
                raise _ReconcileTimeout(f"took longer than {self.timeout:g} s") from None
        if result is not None and not isinstance(result, Result):
            name = getattr(self._reconcile, "__qualname__", self.name)
            raise _WrongAnswer(
                f"{name}: a reconciler returns a Result or nothing, not {type(result).__name__}"
            )
        return result

    async def _invoke(self, request: R) -> Any:
        argument: Any = request
        if self._read is not None:
            argument = await self._read(request)
            if argument is None:
                return None
        if self._is_async:
            return await self._reconcile(argument)  # type: ignore[misc]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix=self.name)
        return await call(self._reconcile, argument, executor=self._threads)

    def _log_failure(self, request: R, error: BaseException, what_next: str) -> None:
        """The whole traceback the first time, one line while the same thing goes on.

        A conflict is no failure: somebody was faster, and the next attempt sees what they did.
        """
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, TerminalError) and error.__cause__ is not None and not str(error):
            text = f"{type(error.__cause__).__name__}: {error.__cause__}"
        fields: dict[str, Any] = {"controller": self.name, "request": str(request)}
        now = current_reconcile.get()
        if now is not None:
            fields["reconcile_id"] = now.id
        if self._log_fields is not None:
            fields.update(self._log_fields(request))
        first = self._said.get(request) != text
        self._said[request] = text
        plain = not first or isinstance(error, _Plain | Conflict)
        logger.log(
            logging.INFO if isinstance(error, Conflict) else logging.ERROR,
            "%s %s: %s; %s",
            self.name,
            request,
            text,
            what_next,
            exc_info=None if plain else _readable(error),
            extra=fields,
        )


class _Plain(Exception):
    """A complaint of the controller itself; where it was raised tells nobody anything."""


class _WrongAnswer(_Plain, TypeError):
    """What a reconciler returned is no answer."""


class _ReconcileTimeout(_Plain):
    """The controller's own deadline, as opposed to a timeout inside the reconciler."""


def _outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, _ReconcileTimeout):
        return "timeout"
    return "panic" if isinstance(error, _PROGRAMMING_ERRORS) else "error"


def _readable(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """An error with its traceback from the reconciler on; how it was called is always the same.

    An answer of the server ends in the reconciler, too: the way through the client says nothing about it.
    """
    steps: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    while steps and _module_of(steps[0]) in _CALLERS:
        del steps[0]
    if isinstance(error, APIError) and not all(_module_of(each).startswith("kubewright.") for each in steps):
        while _module_of(steps[-1]).startswith("kubewright."):
            del steps[-1]
    traceback: TracebackType | None = None
    for each in reversed(steps):
        traceback = TracebackType(traceback, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return type(error), error, traceback or error.__traceback__


def _module_of(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))


def _raise_first(task: asyncio.Future[None]) -> None:
    """Raise what a task failed with; of a group, the first failure."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error
