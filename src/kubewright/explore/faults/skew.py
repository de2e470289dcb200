"""`skew=SECONDS`: the clock of the process is changed, from its start or from a write on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.explore.runs.trace import Trace

from .fault import Fault, FaultError
from .targets import FaultTarget, Timing

SKEWS: Final = ("300", "-300")


def _skews(trace: Trace, timing: Timing) -> Iterator[Fault]:
    for event in (*trace.points("start"), *trace.points("write")):
        for skew in SKEWS:
            yield Skew(event.point, skew)


class Skew(Fault):
    """The clock of the process is set forward or back."""

    action = "skew"
    points = "pw"
    sentence = "the clock of the operator is changed by {value} s at {event}"
    families = {"clock": _skews}
    needs_event_loop = True

    def check(self) -> None:
        """Raise `FaultError` unless the value is a number."""
        try:
            float(self.value)
        except ValueError:
            raise FaultError(f"the skew {self.value!r} is not a number of seconds") from None

    async def before(self, target: FaultTarget) -> None:
        """Set the clock."""
        await target.set_clock(float(self.value))
