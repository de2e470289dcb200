"""`crash-before`, `crash-after`: the process is killed before a request or its response, and restarted."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .events import crash_points
from .fault import Fault
from .targets import FaultTarget, Timing


def _before(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (CrashBefore(event.point) for event, is_after in crash_points(trace) if not is_after)


def _after(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (CrashAfter(event.point) for event, is_after in crash_points(trace) if is_after)


def _leader(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (CrashAfter(event.point) for event in trace.points("write"))


class CrashBefore(Fault):
    """The process is killed before it sends the request."""

    action = "crash-before"
    points = "wxl"
    sentence = "the operator is killed before it sends {event}"
    families = {"crash": _before}

    async def before(self, target: FaultTarget) -> None:
        """Kill the process."""
        await target.crash()


class CrashAfter(Fault):
    """The process is killed before it receives the response."""

    action = "crash-after"
    points = "wxl"
    sentence = "the operator is killed after {event} was stored, before it receives the response"
    families = {"crash": _after, "leader": _leader}

    async def after(self, target: FaultTarget) -> None:
        """Kill the process."""
        await target.crash()
