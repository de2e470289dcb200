"""`pause`: the leader is stopped before it sends a request, and continues when another replica leads."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .fault import Fault
from .targets import FaultTarget, Timing


def _pauses(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Pause(event.point, seconds=timing.pause_seconds) for event in trace.points("write"))


class Pause(Fault):
    """The process is stopped, and continues later."""

    action = "pause"
    points = "w"
    sentence = "the operator is paused for {seconds:g} s before it sends {event}"
    families = {"leader": _pauses}
    needs_event_loop = True

    async def before(self, target: FaultTarget) -> None:
        """Pause the process."""
        await target.pause(self.seconds)
