"""`priorities=SEED`: tasks of reconciles have random priorities, and continue after those with higher ones.

One context switch at a time (`preempt`) does not reach schedules that need several. Random priorities do: a
task waits at each of its awaits for tasks with higher priorities; at some of them, it gets another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace

from .fault import Fault, FaultError
from .targets import FaultTarget, Timing

SCHEDULES: Final = 8
"""Number of random schedules."""


def _schedules(trace: Trace, timing: Timing) -> Iterator[Fault]:
    start = next(trace.points("start"), None)
    tasks = {each.task for each in trace.points("switch")}
    if start is not None and len(tasks) > 1:
        for seed in range(1, SCHEDULES + 1):
            yield Priorities(start.point, str(seed))


class Priorities(Fault):
    """Tasks have random priorities."""

    action = "priorities"
    points = "p"
    sentence = "tasks of reconciles have the random priorities {value}, from {event} on"
    families = {"schedule": _schedules}
    needs_event_loop = True
    is_fallback = True

    def check(self) -> None:
        """Raise `FaultError` unless the value is a seed."""
        if not self.value.isdecimal():
            raise FaultError(f"the priorities {self.value!r} are not a number")

    async def before(self, target: FaultTarget) -> None:
        """Give tasks priorities."""
        await target.set_priorities(int(self.value))
