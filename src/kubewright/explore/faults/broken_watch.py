"""`reset`, `expired`: the watch breaks, or ends with 410 Gone, before a delivery.

A broken watch matters by how long it delays an event (`hold`) and by what the next list hides (`gap`). What
remains is its restart: once before the first event of each type (added, modified, deleted) of each resource.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace, TraceEvent

from .fault import Fault
from .targets import FaultTarget, Timing


def _first_of_each_type(trace: Trace) -> Iterator[TraceEvent]:
    seen: set[tuple[str, ...]] = set()
    for event in trace.points("delivery"):
        key = (event.process, *event.text.split(" ")[:2])
        if key not in seen:
            seen.add(key)
            yield event


def _resets(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Reset(event.point) for event in _first_of_each_type(trace))


def _expiries(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Expired(event.point) for event in _first_of_each_type(trace))


class Reset(Fault):
    """The connection of the watch breaks."""

    action = "reset"
    points = "d"
    sentence = "the watch breaks before the event {event}"
    families = {"watch": _resets}

    async def before(self, target: FaultTarget) -> None:
        """Break the watch."""
        await target.break_watch()


class Expired(Fault):
    """The watch ends with 410 Gone."""

    action = "expired"
    points = "d"
    sentence = "the watch ends with 410 Gone before the event {event}"
    families = {"watch": _expiries}

    async def before(self, target: FaultTarget) -> None:
        """End the watch."""
        await target.expire_watch()
