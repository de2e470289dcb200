"""`slow-request`, `slow-response`: a write, or its response, is delayed until something else has happened.

It matters only if something happens meanwhile: a step, a delivery of another object, or a request of another
reconcile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace, TraceEvent

from .fault import Fault
from .targets import FaultTarget, Timing

EXTERNAL_SECONDS: Final = 60.0


def _overtaken(trace: Trace, timing: Timing) -> Iterator[tuple[TraceEvent, float]]:
    """Return the writes that something can overtake, and the delay."""
    for event in trace.points("write"):
        later = trace.events[event.number + 1 :]
        moment = next((each.time for each in later if _is_concurrent(event, each)), None)
        if moment is None:
            continue
        if not timing.is_virtual:
            yield event, timing.slow_seconds
        elif moment - event.time <= timing.slow_seconds:
            yield event, round(moment - event.time + 0.5, 3)


def _is_concurrent(write: TraceEvent, event: TraceEvent) -> bool:
    """Whether an event can overtake a write: it is caused by something else."""
    if event.kind == "step":
        return True
    if event.kind == "delivery":
        return event.revision != write.revision
    if event.kind in ("write", "read", "external"):
        return bool(event.reconcile) and event.reconcile != write.reconcile
    return False


def _slow_requests(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (SlowRequest(event.point, seconds=delay) for event, delay in _overtaken(trace, timing))


def _slow_responses(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (SlowResponse(event.point, seconds=delay) for event, delay in _overtaken(trace, timing))


def _slow_calls(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (SlowRequest(event.point, seconds=EXTERNAL_SECONDS) for event in trace.points("external"))


class SlowRequest(Fault):
    """The request is delayed."""

    action = "slow-request"
    points = "wx"
    sentence = "{event} reaches the API server {seconds:g} s later"
    families = {"reorder": _slow_requests, "external": _slow_calls}

    async def before(self, target: FaultTarget) -> None:
        """Delay the request."""
        await target.wait(self.seconds)


class SlowResponse(Fault):
    """The response is delayed."""

    action = "slow-response"
    points = "wx"
    sentence = "the response of {event} arrives {seconds:g} s later"
    families = {"reorder": _slow_responses}

    async def after(self, target: FaultTarget) -> None:
        """Delay the response."""
        await target.wait(self.seconds)
