"""`defer`: a request is put back, and all that are ready are reconciled before it."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .fault import Fault
from .targets import FaultTarget, Timing


def _deferrals(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Defer(event.point) for event in trace.points("reconcile") if event.ready)


class Defer(Fault):
    """Other requests are reconciled first."""

    action = "defer"
    points = "q"
    sentence = "all requests that are ready are reconciled before {event}"
    families = {"reorder": _deferrals}
    needs_event_loop = True

    async def before(self, target: FaultTarget) -> None:
        """Put the request back."""
        await target.defer()
