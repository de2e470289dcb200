"""`stale`: after a write, the process is killed and restarts with a lagging API server; a list is old.

After a restart, watch events are late, and lists are old where the request allows it (`resourceVersion=0`).
A list that allows it can be old at any time, if its resource has changed before.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .events import stored_writes, subject
from .fault import Fault
from .targets import FaultTarget, Timing


def _stale(trace: Trace, timing: Timing) -> Iterator[Fault]:
    lists = [each for each in trace.points("read") if each.accepts_stale]
    for event in lists:
        resource = subject(event).partition(" ")[0]
        if any(each.resource == resource for each in trace.events[: event.number]):
            yield Stale(event.point)
    # Every restart costs real time: without such lists, late events (`hold`) show the same.
    if timing.is_virtual or lists:
        for event in stored_writes(trace):
            yield Stale(event.point, seconds=timing.lag_seconds)


class Stale(Fault):
    """The API server lags."""

    action = "stale"
    points = "wr"
    sentence = "the operator is killed after {event}, and restarts with a server that lags by {seconds:g} s"
    families = {"stale": _stale}

    def describe(self, event: str) -> str:
        """Return the sentence with the request that it concerns."""
        if self.point.startswith("r"):
            return f"{event} gets the state before the last change of the resource"
        return super().describe(event)

    async def before(self, target: FaultTarget) -> None:
        """Let a list be old."""
        if self.point.startswith("r"):
            await target.make_stale()

    async def after(self, target: FaultTarget) -> None:
        """Kill the process that has sent a write."""
        if not self.point.startswith("r"):
            await target.crash(lag=self.seconds)
