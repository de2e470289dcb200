"""`outage`: the API server is unreachable for the process; its watches break."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .fault import Fault
from .targets import FaultTarget, Timing


def _outages(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Outage(event.point, seconds=timing.long_seconds) for event in trace.points("write"))


class Outage(Fault):
    """The API server is unreachable, from a request on."""

    action = "outage"
    points = "w"
    sentence = "the API server is unreachable for the operator for {seconds:g} s, from {event} on"
    families = {"errors": _outages}

    async def before(self, target: FaultTarget) -> None:
        """Disconnect the process."""
        await target.disconnect(self.seconds)
