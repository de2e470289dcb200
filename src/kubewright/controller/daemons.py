"""Daemons: a background task for each object of a kind.

    async def stream(camera: Camera, stop: StopEvent) -> None:
        async with connect(camera.spec.address) as connection:
            while not stop:
                ...

    add_daemon(manager, Camera, stream, identity=lambda camera: camera.spec.address)

A daemon is started for each object that is not being deleted. It is stopped when the object is deleted, and
replaced when the object's identity changes (its uid, and the return value of `identity`). A daemon that
raises is restarted with exponential backoff; one that returns is finished. There is never more than one
daemon per object. With a `finalizer` the object is not deleted before its daemon has ended.

A daemon that takes a `StopEvent` is asked to stop first, and cancelled if it does not end within the timeout;
others are cancelled immediately. Plain functions run in a thread each, which cannot be cancelled: they must
check the `StopEvent`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kubewright.api.finalizers import is_deleting
from kubewright.callables import accepts, call, is_async
from kubewright.client.kind_types import AnyKind
from kubewright.runnable import BaseRunnable, Ownership
from kubewright.tracing.source import SpanPublisher

from .controller import Controller
from .event_handlers import enqueue_object, in_cluster
from .finalizers import Finalizers
from .manager_protocol import ManagerProtocol, cluster_name_of, register_controller_name
from .object_readers import object_reader
from .queues.rate_limiters import ExponentialFailureRateLimiter, RateLimiter
from .request import Request, Result
from .sources import KindSource

logger = logging.getLogger(__name__)


HEALTHY_SECONDS = 60.0
"""After a failure, a daemon that ran this long is restarted with the shortest delay."""


class DaemonStopTimeout(Exception):
    """A daemon did not end within the timeout after it was asked to stop."""


class StopEvent:
    """Whether a daemon should end: `while not stop: ... await stop.wait(5)`."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it should end, for logs."""
        self._event = asyncio.Event()
        self._thread_event = threading.Event()

    def __bool__(self) -> bool:
        return self._thread_event.is_set()

    def is_set(self) -> bool:
        """Whether the daemon should end."""
        return self._thread_event.is_set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the daemon should end, or for `timeout` seconds; return whether it should end."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            pass
        return bool(self)

    def wait_in_thread(self, timeout: float | None = None) -> bool:
        """Like `wait`, for plain functions."""
        return self._thread_event.wait(timeout)

    def set(self, reason: str) -> None:
        """Ask the daemon to end."""
        self.reason = reason
        self._thread_event.set()
        self._event.set()


@dataclass(slots=True, eq=False)
class _Daemon:
    """The daemon of one object; stored until the object is deleted, even if the task has ended."""

    identity: object
    stop: StopEvent
    task: asyncio.Task[None]


class DaemonController(BaseRunnable):
    """Starts and stops the daemons of a kind. A runnable of the manager."""

    def __init__(
        self,
        manager: ManagerProtocol,
        kind: AnyKind,
        function: Callable[..., Awaitable[None] | None],
        *,
        name: str = "",
        when: Callable[[Any], bool] | None = None,
        identity: Callable[[Any], object] | None = None,
        finalizer: str = "",
        initial_delay: float = 0.0,
        rate_limiter: RateLimiter[Request] | None = None,
        stop_timeout: float = 10.0,
        needs_leader: bool = True,
        workers: int = 10,
    ) -> None:
        """See `add_daemon`."""
        self.name = name or f"{getattr(function, '__name__', 'daemon')}-daemon".replace("_", "-")
        self.needs_leader = needs_leader
        self._function = function
        self._takes_stop = accepts(function, 2)
        if not is_async(function) and not self._takes_stop:
            raise ValueError(
                f"{self.name}: a plain function cannot be cancelled; add a parameter stop: StopEvent and "
                "return when it is set, or make the function async"
            )
        self._read = object_reader(manager.client, kind)
        self._when: Callable[[Any], bool] | None = when
        self._identity: Callable[[Any], object] | None = identity
        self._initial_delay = initial_delay
        self._rate_limiter: RateLimiter[Request] = rate_limiter or ExponentialFailureRateLimiter(1.0, 300.0)
        self._stop_timeout = stop_timeout
        self._finalizers: Finalizers | None = None
        if finalizer:
            self._finalizers = Finalizers(manager.client, {finalizer: self._clean_up})
        self._daemons: dict[Request, _Daemon] = {}
        register_controller_name(manager, self.name)
        self._cluster = cluster_name_of(manager)
        self.controller: Controller[Request] = Controller(
            self.name, self._reconcile, workers=workers, register_metrics=not self._cluster
        )
        """The controller that starts and stops the daemons."""
        handler = in_cluster(enqueue_object, self._cluster)
        self.controller.watch(KindSource(manager.cache, kind, handler))

    @property
    def running(self) -> list[Request]:
        """The objects whose daemons are running."""
        return [request for request, daemon in self._daemons.items() if not daemon.task.done()]

    @property
    def publishers(self) -> tuple[SpanPublisher]:
        """The controller."""
        return self.controller.publishers

    def share(self, ownership: Ownership) -> Callable[[], None]:
        """Run daemons only for requests of `ownership`."""
        return self.controller.share(ownership)

    async def run(self, stop: asyncio.Event) -> None:
        """Run a daemon for each object until `stop` is set, then stop all of them."""
        try:
            await self.controller.run(stop)
        finally:
            results = await asyncio.gather(
                *(self._stop(request, "the operator is stopping") for request in list(self._daemons)),
                return_exceptions=True,
            )
            for error in results:
                if isinstance(error, Exception):
                    logger.warning(
                        "could not stop daemon", extra={"controller": self.name, "error": str(error)}
                    )

    async def _reconcile(self, request: Request) -> Result | None:
        obj = await self._read(request)
        deleting = obj is not None and is_deleting(obj)
        wanted = obj is not None and not deleting and (self._when is None or self._when(obj))
        if self._finalizers is not None and (deleting or wanted):
            result = await self._finalizers.handle(obj)
            if result is not None:
                if deleting:
                    await self._stop(request, "the object is being deleted")
                return result
        daemon = self._daemons.get(request)
        if daemon is not None:
            if not wanted:
                reason = "the object was deleted" if obj is None else "the object no longer matches when="
                await self._stop(request, reason)
                return None
            if daemon.identity == self._identity_of(obj):
                return None
            await self._stop(request, "the identity of the object changed")
        if wanted:
            self._start(request, obj)
        return None

    def _identity_of(self, obj: Any) -> object:
        custom = self._identity(obj) if self._identity is not None else None
        return obj.metadata.uid, custom

    def _start(self, request: Request, obj: Any) -> None:
        stop = StopEvent()
        task = asyncio.create_task(self._supervise(request, obj, stop), name=f"{self.name} {request}")
        self._daemons[request] = _Daemon(self._identity_of(obj), stop, task)

    async def _supervise(self, request: Request, obj: Any, stop: StopEvent) -> None:
        """Run the daemon, restarting it after a failure, until it returns or is stopped."""
        loop = asyncio.get_running_loop()
        if self._initial_delay and await stop.wait(self._initial_delay):
            return
        last_error = ""
        while not stop:
            started = loop.time()
            try:
                await self._run(obj, stop)
                return
            except Exception as error:
                if loop.time() - started >= HEALTHY_SECONDS:
                    self._rate_limiter.forget(request)
                delay = self._rate_limiter.when(request)
                text = f"{type(error).__name__}: {error}"
                logger.error(
                    "daemon failed, restarting",
                    exc_info=error if text != last_error else None,
                    extra={**self._log_fields(request), "delay_seconds": delay, "error": text},
                )
                last_error = text
            await stop.wait(delay)
            obj = await self._reread(request, obj) if not stop else obj

    async def _reread(self, request: Request, obj: Any) -> Any:
        """Return the current version of the object, or the known one if it cannot be read."""
        try:
            current = await self._read(request)
        except Exception as error:
            logger.warning(
                "could not read object before daemon restart",
                extra={**self._log_fields(request), "error": str(error)},
            )
            return obj
        return current if current is not None and current.metadata.uid == obj.metadata.uid else obj

    async def _run(self, obj: Any, stop: StopEvent) -> None:
        arguments = (obj, stop) if self._takes_stop else (obj,)
        if is_async(self._function):
            await call(self._function, *arguments)
            return
        # A separate thread: daemons run for a long time and would fill any shared pool.
        with ThreadPoolExecutor(1, thread_name_prefix=self.name) as thread:
            await call(self._function, *arguments, executor=thread)

    async def _clean_up(self, obj: Any) -> None:
        """Stop the daemon of an object; the cleanup function of the finalizer."""
        request = Request(obj.metadata.namespace or "", obj.metadata.name, self._cluster)
        await self._stop(request, "the object is being deleted")

    async def _stop(self, request: Request, reason: str) -> None:
        daemon = self._daemons.get(request)
        if daemon is None:
            return
        daemon.stop.set(reason)
        if self._takes_stop and not daemon.task.done():
            await asyncio.wait([daemon.task], timeout=self._stop_timeout)
        if not daemon.task.done() and is_async(self._function):
            daemon.task.cancel()
            await asyncio.wait([daemon.task], timeout=self._stop_timeout)
        if not daemon.task.done():
            raise DaemonStopTimeout(
                f"{self.name} {request}: still running {self._stop_timeout:g} s after it was asked to stop "
                f"because {reason}"
            )
        del self._daemons[request]
        self._rate_limiter.forget(request)
        if not daemon.task.cancelled() and (error := daemon.task.exception()) is not None:
            logger.error(
                "daemon failed while stopping",
                extra={**self._log_fields(request), "error": f"{type(error).__name__}: {error}"},
            )

    def _log_fields(self, request: Request) -> dict[str, str]:
        return {"controller": self.name, "namespace": request.namespace, "object": request.name}


def add_daemon(
    manager: ManagerProtocol,
    kind: AnyKind,
    function: Callable[..., Awaitable[None] | None],
    *,
    name: str = "",
    when: Callable[[Any], bool] | None = None,
    identity: Callable[[Any], object] | None = None,
    finalizer: str = "",
    initial_delay: float = 0.0,
    rate_limiter: RateLimiter[Request] | None = None,
    stop_timeout: float = 10.0,
    needs_leader: bool = True,
    workers: int = 10,
) -> DaemonController:
    """Run `function(obj)` or `function(obj, stop)` in the background for each object of a kind.

    `when(obj)`: only for objects for which it returns true. `identity(obj)`: restart the daemon when the
    return value changes. `finalizer`: do not delete the object before its daemon has ended. `rate_limiter`:
    delays of restarts after failures (default 1 s, doubling to 5 min). `stop_timeout`: seconds that a daemon
    has to end. `workers`: how many daemons are started or stopped concurrently.
    """
    daemons = DaemonController(
        manager,
        kind,
        function,
        name=name,
        when=when,
        identity=identity,
        finalizer=finalizer,
        initial_delay=initial_delay,
        rate_limiter=rate_limiter,
        stop_timeout=stop_timeout,
        needs_leader=needs_leader,
        workers=workers,
    )
    manager.add(daemons)
    return daemons
