"""`preempt`: a task of a reconcile continues later after an await, and other reconciles run meanwhile.

Every await of a reconcile is a point, if the process has several workers or the reconcile several tasks. One
fault is one context switch that the reference run does not have; with two faults in a run there are two.
Orders of independent operations lead to the same run, so a task is delayed only until

- another task has done an operation that depends on the reconcile: on an object that the reconcile touches,
  too, if one of both writes it (the next `LATER_OPERATIONS` of them),
- another reconcile has ended: both can use the same memory, which the trace does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace, TraceEvent

from .events import subject
from .fault import Fault
from .targets import FaultTarget, Timing

LATER_OPERATIONS: Final = 3
"""Number of later operations of other tasks up to which a task is delayed."""
MAX_DELAY: Final = 60.0
MARGIN: Final = 0.0015
"""Seconds by which a delay outlasts an operation, which takes a millisecond."""
_OPERATIONS: Final = ("write", "read", "external")


def _preemptions(trace: Trace, timing: Timing) -> Iterator[Fault]:
    operations = [each for each in trace if each.kind in _OPERATIONS and each.task]
    for event in trace.points("switch"):
        own = [each for each in operations if each.reconcile == event.reconcile]
        later = [
            each
            for each in operations
            if each.process == event.process
            and each.task != event.task
            and each.number > event.number
            and each.time - event.time < MAX_DELAY
        ]
        dependent = [each for each in later if any(_depend(each, other) for other in own)]
        ends = {each.reconcile: each for each in later if each.reconcile != event.reconcile}
        for each in (*dependent[:LATER_OPERATIONS], *list(ends.values())[:LATER_OPERATIONS]):
            yield Preempt(event.point, seconds=round(each.time - event.time + MARGIN, 4))


def _depend(one: TraceEvent, other: TraceEvent) -> bool:
    """Whether the order of two operations matters."""
    if one.kind == other.kind == "read":
        return False
    resource, _, name = subject(one).partition(" ")
    other_resource, _, other_name = subject(other).partition(" ")
    is_same = name == other_name or one.text.startswith("list ") or other.text.startswith("list ")
    return resource == other_resource and is_same


class Preempt(Fault):
    """Other tasks run before one continues."""

    action = "preempt"
    points = "s"
    sentence = "{event} continues {seconds:g} s later, and other reconciles run meanwhile"
    families = {"schedule": _preemptions}
    needs_event_loop = True

    async def before(self, target: FaultTarget) -> None:
        """Let other tasks run."""
        await target.wait(self.seconds)
