"""Timers: a function that is called for every object again and again.

    add_timer(manager, Database, back_up, interval=3600)

Each object has a time of its own, counted from when it was first seen. A failure is tried again with growing
delays, as a reconcile is; changes of the object do not call the function. A timer is a controller: it has
workers, metrics, a name, and runs where the leader is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kubewright.api.finalizers import is_deleting
from kubewright.cache.store import ObjectChange
from kubewright.callables import call
from kubewright.client.kind_types import AnyKind

from .builder import ControllerBuilder, ManagerProtocol
from .controller import Controller
from .object_readers import object_reader
from .request import Request, Result


@dataclass(slots=True)
class _Schedule:
    """When one object is due."""

    uid: str
    due: float
    changed_at: float


class TimerReconciler:
    """Calls a function for objects of a kind; `add_timer` makes a controller of it."""

    def __init__(
        self,
        client: Any,
        kind: AnyKind,
        function: Callable[[Any], Any],
        *,
        interval: float,
        initial_delay: float = 0.0,
        idle: float = 0.0,
        sharp: bool = False,
        when: Callable[[Any], bool] | None = None,
    ) -> None:
        if interval <= 0:
            raise ValueError(f"a timer needs an interval above 0 seconds, not {interval:g}")
        self._read = object_reader(client, kind)
        self._function = function
        self._interval = interval
        self._initial_delay = initial_delay
        self._idle = idle
        self._sharp = sharp
        self._when = when
        self._schedules: dict[Request, _Schedule] = {}

    def changed(self, change: ObjectChange) -> Iterable[Request]:
        """A handler: new objects, those that went, and those without a schedule; others only move `idle`."""
        request = Request(*change.key)
        schedule = self._schedules.get(request)
        if schedule is None or change.new is None or change.new.uid != schedule.uid:
            return (request,)
        if change.old is not None and change.old.revision != change.new.revision:
            schedule.changed_at = asyncio.get_running_loop().time()
        return ()

    async def reconcile(self, request: Request) -> Result | None:
        """Call the function if it is time, and say when it will be next."""
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
        answer = await call(self._function, obj)
        now = clock()
        if isinstance(answer, Result) and answer.delay > 0:
            schedule.due = now + answer.delay
        elif self._sharp:
            # Sharp times are those that follow from the first; what was missed meanwhile is left out.
            schedule.due = due + ((now - due) // self._interval + 1) * self._interval
        else:
            schedule.due = now + self._interval
        return Result(requeue_after=schedule.due - now)


def add_timer(
    manager: ManagerProtocol,
    kind: AnyKind,
    function: Callable[[Any], Any],
    *,
    interval: float,
    initial_delay: float = 0.0,
    idle: float = 0.0,
    sharp: bool = False,
    when: Callable[[Any], bool] | None = None,
    name: str = "",
    workers: int = 10,
    timeout: float | None = None,
) -> Controller[Request]:
    """Have `function(obj)` called every `interval` seconds for every object that is not being deleted.

    `initial_delay`: the first time so many seconds after the object was seen. `idle`: only when the object
    has not changed for so long. `sharp`: times do not drift with how long the function takes. `when`: only
    for objects that pass. A function that returns a `Result` with `requeue_after` says when it is due.
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
    )
    label = name or f"{getattr(function, '__name__', 'timer')}-timer".replace("_", "-")
    builder: ControllerBuilder[Request] = ControllerBuilder(manager, label)
    builder.watches(kind, handler=timer.changed).with_options(workers=workers, timeout=timeout)
    return builder.complete(timer.reconcile)
