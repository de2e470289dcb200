"""`gap`: intermediate states are never seen, because the watch breaks and the objects are listed again later.

A gap hides at least two changes of one object; one with fewer is a delay (`hold`). It ends after the next
change of the object, or after the last one. An object that is created and deleted in a gap is not one that an
operator could have seen, so such gaps are left out, and those that outlast the timeout of a step.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .events import MARGIN, fits_steps, subject, verb
from .fault import Fault
from .targets import FaultTarget, Timing


def _gaps(trace: Trace, timing: Timing) -> Iterator[Fault]:
    deliveries = list(trace.points("delivery"))
    for index, event in enumerate(deliveries):
        key = (event.process, subject(event))
        same = [each for each in deliveries[index + 1 :] if (each.process, subject(each)) == key]
        if not timing.is_virtual:
            if same:
                yield Gap(event.point, seconds=timing.gap_seconds)
            continue
        for end in (*same[:1], *same[-1:]):
            seconds = round(end.time - event.time + MARGIN, 3)
            is_visible = verb(event) != "ADDED" or verb(end) != "DELETED"
            if seconds <= timing.gap_seconds and is_visible and fits_steps(trace, event.time, seconds):
                yield Gap(event.point, seconds=seconds)


class Gap(Fault):
    """The watch breaks, cannot be started for the delay, and then gets 410 Gone."""

    action = "gap"
    points = "d"
    sentence = (
        "the watch breaks before the event {event}, and after {seconds:g} s the operator must list again"
    )
    families = {"unobserved": _gaps}

    async def before(self, target: FaultTarget) -> None:
        """Break the watch."""
        await target.expire_watch(self.seconds)
