"""`Schedule`: the order in which the tasks of reconciles in one process continue after an await.

A process with several workers runs several reconciles at a time, and a reconcile can have several tasks
(`asyncio.gather`). Where one of them continues is a point `s`: after a request, when its response arrives,
and after any other await, when the loop resumes the task. At the point, a fault can let the task wait
(`preempt`), and random priorities can decide which one continues first (`priorities`). Tasks of the control
plane and of the client are not concerned, so everything else happens as before.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from kubewright.controller.controller import current_reconcile

from .loop import NumberedTask
from .process_target import ProcessTarget, complete

if TYPE_CHECKING:
    from kubewright.controller.controller import ReconcileInfo
    from kubewright.explore.runs.trace import TraceEvent

    from .processes import OperatorProcess

PRIORITY_SECONDS: Final = 0.004
"""Virtual seconds for which a task waits for each task with a higher priority: some requests."""
PRIORITY_CHANGES: Final = 0.1
"""Probability that a task gets another priority when it continues."""


class Schedule:
    """Decides when the tasks of reconciles of a process continue."""

    def __init__(self, process: OperatorProcess) -> None:
        self.is_concurrent = False
        """Whether reconciles, or tasks of one, can run at the same time."""
        self.active: set[tuple[str, Hashable]] = set()
        """Controllers and requests of the current reconciles."""
        self._process = process
        self._random: random.Random | None = None
        self._priorities: dict[int, float] = {}
        self._waiting: set[int] = set()
        """Tasks, by number, that wait for a response or for other tasks: no points."""
        self._released: set[int] = set()
        """Tasks, by number, that have waited for other tasks."""
        self._subtasks: list[asyncio.Task[Any]] = []

    def set_priorities(self, seed: int) -> None:
        """Give tasks random priorities."""
        self._random = self._process.cluster.randomness.stream(f"priorities {seed}")

    def enable(self) -> None:
        """Make every await of a reconcile a point."""
        self.is_concurrent = True
        self._process.cluster.loop.on_resume = _resume

    def add_subtask(self, task: asyncio.Task[Any]) -> None:
        """Note a task that a reconcile has started; one that it waits for has nothing to overtake."""
        self._subtasks = [each for each in self._subtasks if not each.done()]
        self._subtasks.append(task)
        if len(self._subtasks) > 1 and not self.is_concurrent:
            self.enable()

    def begin_request(self, event: TraceEvent) -> None:
        """Note that the current task waits for a response."""
        task = asyncio.current_task()
        if isinstance(task, NumberedTask):
            event.task = task.number
            self._waiting.add(task.number)

    async def end_request(self, event: TraceEvent) -> None:
        """Continue the current task after a response: a point."""
        info = current_reconcile.get()
        delay = 0.0 if info is None else self._delay(info, event.task, f"after {event.text}")
        if delay:
            await asyncio.sleep(delay)
        self._waiting.discard(event.task)

    def resume(self, handle: Any, task: NumberedTask[Any]) -> bool:
        """Return whether a task continues now after another await; otherwise it continues later."""
        context: contextvars.Context = handle._context
        info = context.get(current_reconcile)
        if info is None or task.number in self._waiting:
            return True
        if task.number in self._released:
            self._released.discard(task.number)
            return True
        delay = self._delay(info, task.number, "after an await")
        if not delay:
            return True
        self._waiting.add(task.number)
        loop = self._process.cluster.loop

        def continue_() -> None:
            self._waiting.discard(task.number)
            self._released.add(task.number)
            loop.add_ready(handle)

        # Not in the context of the process: it may be paused or killed, which `add_ready` observes.
        loop.call_later(delay, continue_, context=contextvars.Context())
        return False

    def _delay(self, info: ReconcileInfo, task: int, text: str) -> float:
        """Record a point; return the virtual seconds for which the task waits."""
        if not self.is_concurrent or (info.controller, info.request) not in self.active:
            return 0.0
        process, cluster = self._process, self._process.cluster
        event = cluster.record("switch", process.name, f"{info.controller} {info.request} {text}")
        event.task, event.reconcile = task, f"{info.controller} {info.request} {info.id}"
        fault = cluster.fault_at(event)
        target = _SwitchTarget(process, event)
        if fault is not None:
            complete(fault.before(target))
        return target.delay or self._priority_delay(task)

    def _priority_delay(self, task: int) -> float:
        drawn = self._random
        if drawn is None:
            return 0.0
        if task not in self._priorities or drawn.random() < PRIORITY_CHANGES:
            self._priorities[task] = drawn.random()
        return PRIORITY_SECONDS * sum(each > self._priorities[task] for each in self._priorities.values())


class _SwitchTarget(ProcessTarget):
    """A task of a reconcile that is about to continue."""

    delay = 0.0

    async def wait(self, seconds: float) -> None:
        """Let other tasks run."""
        self.delay = seconds


def note_task(task: NumberedTask[Any]) -> None:
    """Note a task that a process has created, if a reconcile has."""
    schedule = getattr(task.process, "schedule", None)
    if schedule is not None and current_reconcile.get() is not None:
        schedule.add_subtask(task)


def _resume(handle: Any) -> bool:
    """Return whether a callback of the loop runs now."""
    task = getattr(handle._callback, "__self__", None)
    process = task.process if isinstance(task, NumberedTask) else None
    schedule = getattr(process, "schedule", None)
    return schedule is None or schedule.resume(handle, task)
