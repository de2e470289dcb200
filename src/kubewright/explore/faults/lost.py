"""`lost-request`, `lost-response`: a timeout instead of a response, without or with the effect."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .events import distinct_reads, is_external_read
from .fault import Fault
from .targets import FaultTarget, Timing


def _lost_requests(trace: Trace, timing: Timing) -> Iterator[Fault]:
    for event in (*trace.points("write"), *distinct_reads(trace, "read")):
        yield LostRequest(event.point)


def _lost_calls(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (LostRequest(event.point) for event in trace.points("external"))


def _lost_responses(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (LostResponse(event.point) for event in trace.points("write"))


def _lost_results(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (LostResponse(event.point) for event in trace.points("external") if not is_external_read(event))


class LostRequest(Fault):
    """The request has no effect and no response."""

    action = "lost-request"
    points = "wrx"
    sentence = "{event} does not reach the API server, and the operator gets a timeout"
    families = {"timeout": _lost_requests, "external": _lost_calls}

    async def before(self, target: FaultTarget) -> None:
        """Lose the request."""
        await target.time_out()


class LostResponse(Fault):
    """The request has its effect and no response."""

    action = "lost-response"
    points = "wx"
    sentence = "{event} is stored, and the operator gets a timeout instead of the response"
    families = {"timeout": _lost_responses, "external": _lost_results}

    async def after(self, target: FaultTarget) -> None:
        """Lose the response."""
        await target.time_out()
