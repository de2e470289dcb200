"""Timers: a function that is called periodically for each object of a kind.

    add_timer(manager, Database, back_up, interval=3600)

The interval of an object starts when the object is first seen. A failure is retried with exponential backoff,
as in a reconcile; changes of the object do not call the function. A timer is a controller: it has a name,
workers and metrics, and runs on the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from kubewright.api.finalizers import is_deleting
from kubewright.cache.stores.store import ObjectChange
from kubewright.callables import call
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind

from .builder import ControllerBuilder, kind_parts
from .controller import Controller
from .manager_protocol import ManagerProtocol, cluster_name_of
from .object_readers import object_reader
from .request import Request, Result


@dataclass(slots=True)
class _Schedule:
    """When the function is next called for one object."""

    uid: str
    due: float
    changed_at: float


ObjectT = TypeVar("ObjectT")


class TimerReconciler:
    """Calls a function for objects of a kind when it is due; `add_timer` builds a controller with it."""

    def __init__(
        self,
        client: Client,
        kind: AnyKind,
        function: Callable[[ObjectT], Awaitable[Result | None] | Result | None],
        *,
        interval: float,
        initial_delay: float = 0.0,
        idle: float = 0.0,
        sharp: bool = False,
        when: Callable[[ObjectT], bool] | None = None,
        cluster: str = "",
    ) -> None:
        if interval <= 0:
            raise ValueError(f"the interval of a timer must be greater than 0 seconds, not {interval:g}")
        self._read = object_reader(client, kind)
        self._function: Callable[[Any], object] = function
        self._interval = interval
        self._initial_delay = initial_delay
        self._idle = idle
        self._sharp = sharp
        self._when: Callable[[Any], bool] | None = when
        self._cluster = cluster
        self._schedules: dict[Request, _Schedule] = {}

    def handle_change(self, change: ObjectChange) -> Iterable[Request]:
        """Enqueue created and deleted objects; other changes only restart the idle time. An event handler."""
        request = Request(*change.key, self._cluster)
        schedule = self._schedules.get(request)
        if schedule is None or change.new is None or change.new.uid != schedule.uid:
            return (request,)
        if change.old is not None and change.old.revision != change.new.revision:
            schedule.changed_at = asyncio.get_running_loop().time()
        return ()

    async def reconcile(self, request: Request) -> Result | None:
        """Call the function if it is due, and requeue for the next time."""
        obj = await self._read(request)
        if obj is None or is_deleting(obj) or (self._when is not None and not self._when(obj)):
            self._schedules.pop(request, None)
            return None
        clock = asyncio.get_running_loop().time
        now = clock()
        schedule = self._schedules.get(request)
        if schedule is None or schedule.uid != obj.metadata.uid:
            schedule = _Schedule(obj.metadata.uid, now + self._initial_delay, now)
            self._schedules[request] = schedule
        due = max(schedule.due, schedule.changed_at + self._idle) if self._idle else schedule.due
        if due > now:
            return Result(requeue_after=due - now)
        result = await call(self._function, obj)
        now = clock()
        if isinstance(result, Result) and result.delay > 0:
            schedule.due = now + result.delay
        elif self._sharp:
            # The next multiple of the interval after the first call; missed ones are skipped.
            schedule.due = due + ((now - due) // self._interval + 1) * self._interval
        else:
            schedule.due = now + self._interval
        return Result(requeue_after=schedule.due - now)


def add_timer(
    manager: ManagerProtocol,
    kind: AnyKind,
    function: Callable[[ObjectT], Awaitable[Result | None] | Result | None],
    *,
    interval: float,
    initial_delay: float = 0.0,
    idle: float = 0.0,
    sharp: bool = False,
    when: Callable[[ObjectT], bool] | None = None,
    name: str = "",
    workers: int = 10,
    timeout: float | None = None,
    tracing: bool = False,
) -> Controller[Request]:
    """Call `function(obj)` every `interval` seconds for each object that is not being deleted.

    `initial_delay`: seconds from when the object is first seen to the first call. `idle`: call only if the
    object has not changed for this many seconds. `sharp`: keep multiples of the interval, independent of how
    long the function takes. `when`: call only for objects for which it returns true. A function that returns
    `Result(requeue_after=...)` sets the time of its next call.
    """
    timer = TimerReconciler(
        manager.client,
        kind,
        function,
        interval=interval,
        initial_delay=initial_delay,
        idle=idle,
        sharp=sharp,
        when=when,
        cluster=cluster_name_of(manager),
    )
    label = name or f"{getattr(function, '__name__', 'timer')}-timer".replace("_", "-")
    builder: ControllerBuilder[Request] = ControllerBuilder(manager, label)
    builder.watches(kind, handler=timer.handle_change).with_options(
        workers=workers, timeout=timeout, tracing=tracing
    )
    controller = builder.complete(timer.reconcile)
    controller.kind = kind_parts(manager, kind)
    return controller
