"""`upgrade`: after a write, the old version of the operator is replaced by the new one."""

from __future__ import annotations

from collections.abc import Iterator

from kubewright.explore.runs.trace import Trace

from .events import stored_writes
from .fault import Fault
from .targets import FaultTarget, Timing


def _upgrades(trace: Trace, timing: Timing) -> Iterator[Fault]:
    return (Upgrade(event.point) for event in stored_writes(trace))


class Upgrade(Fault):
    """The new version of the operator starts."""

    action = "upgrade"
    points = "w"
    sentence = "the new version of the operator starts after {event}"
    families = {"upgrade": _upgrades}
    needs_event_loop = True

    async def after(self, target: FaultTarget) -> None:
        """Start the new version."""
        await target.upgrade()
