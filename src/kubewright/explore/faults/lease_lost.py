"""`lease-lost`: requests for Leases fail, and another replica becomes the leader."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .fault import Fault
from .targets import FaultTarget, Timing


def _losses(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (LeaseLost(event.point, seconds=timing.long_seconds) for event in trace.points("write"))


class LeaseLost(Fault):
    """The leader cannot renew its Lease."""

    action = "lease-lost"
    points = "w"
    sentence = "requests for Leases fail for {seconds:g} s, from {event} on"
    families = {"leader": _losses}
    needs_event_loop = True

    async def before(self, target: FaultTarget) -> None:
        """Fail requests for Leases."""
        await target.lose_lease(self.seconds)
