"""`hold`: a delivery, and later ones of the same watch, arrive late.

A held delivery matters only by which writes the operator does without it. In virtual time the hold ends
after the next write, the second next, ... (`LATER_WRITES`), and one is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace

from .events import MARGIN
from .fault import Fault
from .targets import FaultTarget, Timing

LATER_WRITES: Final = 3
"""Number of later writes up to which a delivery is held."""


def _late(trace: Trace, timing: Timing) -> Iterator[Fault]:
    writes = list(trace.points("write")) if timing.is_virtual else []
    for event in trace.points("delivery"):
        later = [each.time for each in writes if each.number > event.number and each.time >= event.time]
        for moment in dict.fromkeys(later[:LATER_WRITES]):
            delay = moment - event.time + MARGIN
            if delay < timing.long_seconds:
                yield Hold(event.point, seconds=round(delay, 3))
        yield Hold(event.point, seconds=timing.long_seconds)


class Hold(Fault):
    """The delivery is late."""

    action = "hold"
    points = "d"
    sentence = "the event {event} and later ones of that watch arrive {seconds:g} s later"
    families = {"stale": _late}

    async def before(self, target: FaultTarget) -> None:
        """Delay the delivery."""
        await target.wait(self.seconds)
