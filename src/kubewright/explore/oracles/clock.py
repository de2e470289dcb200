"""`Clock`: all clocks are ahead or behind, those of the control plane as well.

An operator that acts at certain times of the day (a schedule) then ends in another state, and one that only
compares times with each other does not. What differs is therefore not compared in runs in which the clock of
the operator alone is changed (the family `clock`): what remains is caused by comparing the clock
of the process with times of the API server.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kubewright.explore.final_state import differences, normalise

from .control import rules_of
from .probe import Probe
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.runs.session import Session

SHIFTS: Final = ("300", "-300", "97")
"""Seconds; the skews of the family `clock`, and one that is not a multiple of common periods."""


class Clock(Variation):
    """Change all clocks before the operator starts; `target` is the number of seconds."""

    name = "clock"

    async def begin(self, probe: Probe) -> None:
        """Change the clocks."""
        probe.run.loop.epoch += float(self.target)

    async def finish(self, probe: Probe) -> None:
        """Record what depends on the time of the day."""
        run = probe.run
        await asyncio.sleep(max(probe.reference.end - run.loop.now, 0.0))
        state = normalise(probe.cluster_state, run.cluster.external.data)
        run.random = rules_of(differences(probe.reference.final_state, state, run.tolerances))


def time_of_day_rules(session: Session, reference: Run) -> tuple[str, ...]:
    """Return tolerances for what depends on the time of the day."""
    found: dict[str, None] = {}
    for each in SHIFTS:
        shifted = session.execute(reference=reference, variation=f"clock:{each}")
        found.update(dict.fromkeys(shifted.random))
    return tuple(found)
