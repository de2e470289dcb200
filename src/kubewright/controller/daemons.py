"""DaemonController: a background task for every object, from when it appears until it goes.

    async def follow(camera: Camera, stopped: Stopped) -> None:
        async with connect(camera.spec.address) as stream:
            while not stopped:
                ...

    add_daemon(manager, Camera, follow, identity=lambda camera: camera.spec.address)

A daemon is started for an object that is there and not being deleted, and stopped when that is no longer so
or when the object's identity changes (its uid, and what `identity` makes of it); then another is started. One
that raises is started again after a growing delay; one that returns has done its work. There are never two
for one object. With a `finalizer` the object stays until its daemon has ended.

A daemon that takes `stopped` is told first and cancelled if it does not end in time; others are cancelled at
once. Plain functions run in a thread each, which cannot be cancelled: they have to look at `stopped`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kubewright.api.finalizers import is_deleting
from kubewright.callables import call, is_async
from kubewright.client.kind_types import AnyKind

from .builder import ManagerProtocol, register_controller_name
from .controller import Controller
from .event_handlers import enqueue_object
from .finalizers import Finalizers
from .object_readers import object_reader
from .rate_limiters import ExponentialFailureRateLimiter, RateLimiter
from .request import Request, Result
from .sources import KindSource

logger = logging.getLogger(__name__)

HEALTHY_SECONDS = 60.0
"""A daemon that ran this long before it failed starts again with the shortest delay."""


class DaemonStopTimeout(Exception):
    """A daemon that has been told to stop and has not ended."""


class StopEvent:
    """Whether a daemon should end. `while not stopped: ... await stopped.wait(5)`."""

    def __init__(self) -> None:
        self.reason = ""
        """Why, for logs."""
        self._here = asyncio.Event()
        self._in_threads = threading.Event()

    def __bool__(self) -> bool:
        return self._in_threads.is_set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Sleep until it should end, or so many seconds; tells whether it should."""
        try:
            async with asyncio.timeout(timeout):
                await self._here.wait()
        except TimeoutError:
            pass
        return bool(self)

    def wait_in_thread(self, timeout: float | None = None) -> bool:
        """The same, for plain functions."""
        return self._in_threads.wait(timeout)

    def set(self, reason: str) -> None:
        """Ask for the end."""
        self.reason = reason
        self._in_threads.set()
        self._here.set()


@dataclass(slots=True, eq=False)
class _Running:
    """The daemon of one object. It stays here after it has ended, until the object goes."""

    identity: Any
    stopped: StopEvent
    task: asyncio.Task[None]


class DaemonController:
    """The daemons of a kind, as a runnable for a manager."""

    group = "others"

    def __init__(
        self,
        manager: ManagerProtocol,
        kind: AnyKind,
        function: Callable[..., Any],
        *,
        name: str = "",
        when: Callable[[Any], bool] | None = None,
        identity: Callable[[Any], Any] | None = None,
        finalizer: str = "",
        initial_delay: float = 0.0,
        limiter: RateLimiter[Request] | None = None,
        stop_timeout: float = 10.0,
        needs_leader: bool = True,
        workers: int = 10,
    ) -> None:
        """See `add_daemon`."""
        self.name = name or f"{getattr(function, '__name__', 'daemon')}-daemon".replace("_", "-")
        self.needs_leader = needs_leader
        self._function = function
        self._takes_stopped = _takes_two(function)
        if not is_async(function) and not self._takes_stopped:
            raise ValueError(
                f"{self.name}: a plain function cannot be cancelled; let it take (obj, stopped) and end when "
                "stopped is true, or make it async"
            )
        self._read = object_reader(manager.client, kind)
        self._when = when
        self._identity = identity
        self._initial_delay = initial_delay
        self._limiter: RateLimiter[Request] = limiter or ExponentialFailureRateLimiter(1.0, 300.0)
        self._stop_timeout = stop_timeout
        self._finalizers: Finalizers | None = None
        if finalizer:
            self._finalizers = Finalizers(manager.client, {finalizer: self._stop_for})
        self._running: dict[Request, _Running] = {}
        register_controller_name(manager, self.name)
        self.controller: Controller[Request] = Controller(self.name, self._reconcile, workers=workers)
        """Starts and stops the daemons."""
        self.controller.watch(KindSource(manager.cache, kind, enqueue_object))

    @property
    def running(self) -> list[Request]:
        """The objects whose daemons run."""
        return [request for request, each in self._running.items() if not each.task.done()]

    async def run(self, stop: asyncio.Event) -> None:
        """Keep a daemon for each object until `stop`, then end them all."""
        try:
            await self.controller.run(stop)
        finally:
            ended = await asyncio.gather(
                *(self._stop(request, "the operator stops") for request in list(self._running)),
                return_exceptions=True,
            )
            for error in ended:
                if isinstance(error, Exception):
                    logger.warning("%s", error)

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
        known = self._running.get(request)
        if known is not None:
            if not wanted:
                await self._stop(request, "the object is gone" if obj is None else "it is no longer wanted")
                return None
            if known.identity == self._identity_of(obj):
                return None
            await self._stop(request, "the object has changed")
        if wanted:
            self._start(request, obj)
        return None

    def _identity_of(self, obj: Any) -> Any:
        more = self._identity(obj) if self._identity is not None else None
        return obj.metadata.uid, more

    def _start(self, request: Request, obj: Any) -> None:
        stopped = StopEvent()
        task = asyncio.create_task(self._supervise(request, obj, stopped), name=f"{self.name} {request}")
        self._running[request] = _Running(self._identity_of(obj), stopped, task)

    async def _supervise(self, request: Request, obj: Any, stopped: StopEvent) -> None:
        """Run the daemon, and again after a failure, until it returns or is stopped."""
        loop = asyncio.get_running_loop()
        if self._initial_delay and await stopped.wait(self._initial_delay):
            return
        said = ""
        while not stopped:
            started = loop.time()
            try:
                await self._run(obj, stopped)
                return
            except Exception as error:
                if loop.time() - started >= HEALTHY_SECONDS:
                    self._limiter.forget(request)
                delay = self._limiter.when(request)
                text = f"{type(error).__name__}: {error}"
                logger.error(
                    "%s %s: %s; starting again in %g s",
                    self.name,
                    request,
                    text,
                    delay,
                    exc_info=error if text != said else None,
                )
                said = text
            await stopped.wait(delay)
            obj = await self._fresh(request, obj) if not stopped else obj

    async def _fresh(self, request: Request, obj: Any) -> Any:
        """The object as it is now; as it was, where that cannot be told."""
        try:
            fresh = await self._read(request)
        except Exception as error:
            logger.warning("%s %s: cannot be read anew: %s", self.name, request, error)
            return obj
        return fresh if fresh is not None and fresh.metadata.uid == obj.metadata.uid else obj

    async def _run(self, obj: Any, stopped: StopEvent) -> None:
        arguments = (obj, stopped) if self._takes_stopped else (obj,)
        if is_async(self._function):
            await self._function(*arguments)
            return
        # A thread of its own: daemons run for long and would fill any pool that is shared.
        with ThreadPoolExecutor(1, thread_name_prefix=self.name) as thread:
            await call(self._function, *arguments, executor=thread)

    async def _stop_for(self, obj: Any) -> None:
        """The cleanup behind the finalizer."""
        request = Request(obj.metadata.namespace or "", obj.metadata.name)
        await self._stop(request, "the object is being deleted")

    async def _stop(self, request: Request, reason: str) -> None:
        known = self._running.get(request)
        if known is None:
            return
        known.stopped.set(reason)
        if self._takes_stopped and not known.task.done():
            await asyncio.wait([known.task], timeout=self._stop_timeout)
        if not known.task.done() and is_async(self._function):
            known.task.cancel()
            await asyncio.wait([known.task], timeout=self._stop_timeout)
        if not known.task.done():
            raise DaemonStopTimeout(
                f"{self.name} {request}: told to stop because {reason}, and still running after "
                f"{self._stop_timeout:g} s"
            )
        del self._running[request]
        self._limiter.forget(request)
        if not known.task.cancelled() and (error := known.task.exception()) is not None:
            logger.error("%s %s: failed while it ended: %s", self.name, request, error)


def add_daemon(
    manager: ManagerProtocol, kind: AnyKind, function: Callable[..., Any], **options: Any
) -> DaemonController:
    """Have `function(obj)` or `function(obj, stopped)` run in the background for every object of a kind.

    Options: `name`; `when(obj)`: only for objects that pass; `identity(obj)`: start anew when this changes;
    `finalizer`: keep the object until its daemon has ended; `initial_delay`; `limiter`: delays after failures
    (1 s doubling to 5 min); `stop_timeout`: how long it may take to end (10 s); `needs_leader`; `workers`.
    """
    daemons = DaemonController(manager, kind, function, **options)
    manager.add(daemons)
    return daemons


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(object(), object())
    except TypeError:
        return False
    return True
