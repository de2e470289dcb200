"""`Control`: a second reference run, with other random values, and more time at its end.

Fields that differ from the reference run are random; what changes while nothing happens is periodic. Both are
not compared with other runs, and the report names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.explore.final_state import differences, normalise

from .history import RunHistory
from .probe import Probe
from .variation import Variation
from .write_checks import needless_writes, regenerated_values

if TYPE_CHECKING:
    from kubewright.explore.final_state import Difference

IDLE_SECONDS = 7200.0
"""Virtual seconds after the last step in which periodic changes are recorded."""


class Control(Variation):
    """Repeat the scenario with other random values."""

    name = "control"

    async def begin(self, probe: Probe) -> None:
        """Draw other random values."""
        probe.run.cluster.randomness.use_other_values()

    async def finish(self, probe: Probe) -> None:
        """Compare with the reference run, and with the state two hours later."""
        run = probe.run
        reference, loop = probe.reference, run.loop
        await asyncio.sleep(max(reference.end - loop.now, 0.0))
        state = normalise(probe.cluster_state, run.cluster.external.data)
        run.random = rules_of(differences(reference.final_state, state, run.tolerances))
        run.random_values = tuple(self._random_values(probe))
        began = loop.now
        before, until = probe.state(), began + IDLE_SECONDS
        found: list[Difference] = []
        while loop.now < until:
            await asyncio.sleep(min(run.scenario.quiet_seconds, until - loop.now))
            now = probe.state()
            found += differences(before, now, run.tolerances)
            before = now
        run.periodic = rules_of(found)
        for each in needless_writes(run.cluster.requests, until - 3600.0):
            probe.find("needless-writes", each)
        if reference.state is not None:
            for each in regenerated_values(RunHistory(reference.state, reference.trace), run.random_values):
                probe.find("regenerated", each)

    def _random_values(self, probe: Probe) -> Iterator[str]:
        """Return the values of Secrets that differ from the reference run."""
        expected = probe.reference.state
        known = {} if expected is None else {each.key: each for each in expected.of_kind("Secret")}
        for each in probe.cluster_state.of_kind("Secret"):
            before = known[each.key].data.get("data") or {} if each.key in known else {}
            for name, value in (each.data.get("data") or {}).items():
                if name in before and before[name] != value:
                    yield f"{each.namespace}/{each.name}:{name}"


def rules_of(found: list[Difference]) -> tuple[str, ...]:
    """Return tolerances for fields that differ; an object that exists only once stands for its kind."""
    rules: dict[str, None] = {}
    for each in found:
        kind = each.object.partition(" ")[0]
        rules[f"{kind}:{each.path}" if each.path else kind] = None
    return tuple(rules)
