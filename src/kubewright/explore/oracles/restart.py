"""`Restart`: a restart of the idle operator changes nothing, and neither does a second reconcile.

After each step that changes something, the operator becomes idle; it is then restarted. If the new process
changes the state, the old one has not reacted to something that it reads (a Secret, an annotation that a
predicate filters, an object that was created later), or the state depends on the memory of the process.
Then everything is reconciled again, and the operator is restarted once more and receives the existing objects
in reverse order: no cache guarantees an order.

`OtherProcess` repeats the reference run in other Python processes, in which sets have another order.

`Settled` only lets the operator become idle. Where the objects of the user are the same as after an earlier
step, the state must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.explore.final_state import differences
from kubewright.explore.runs.other_process import final_state_elsewhere
from kubewright.explore.simulation.factories import ModuleFactory, OperatorPool

from .probe import Probe, desired_of
from .status_checks import status_problems
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.final_state import NormalisedState
    from kubewright.explore.runs.run import SimulatedRun

HASH_SEEDS = (1, 2, 3)
"""Of two elements of a set, one of these and the seed of this process most likely exchange the order."""


class Restart(Variation):
    """Restart the operator while it is idle, after each change."""

    name = "restart"

    async def before_change(self, probe: Probe, step: str) -> None:
        """Restart after the previous change."""
        await check_restart(probe, f"after the step `{step}`")

    async def finish(self, probe: Probe) -> None:
        """Restart after the last step."""
        await check_restart(probe, "after the last step")


class Settled(Variation):
    """Let the operator become idle after each change."""

    name = "settled"

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self._states: dict[str, tuple[str, NormalisedState]] = {}
        """States when the operator was idle, by the objects of the user at that time."""

    async def before_change(self, probe: Probe, step: str) -> None:
        """Become idle after the previous change."""
        await self._check(probe, f"after the step `{step}`")

    async def finish(self, probe: Probe) -> None:
        """Become idle after the last step."""
        await self._check(probe, "after the last step")

    async def _check(self, probe: Probe, when: str) -> None:
        if probe.run.findings or not await probe.settle():
            return
        kinds = probe.custom_kinds
        for each in status_problems(probe.cluster_state, kinds):
            probe.find("status", f"{when}, {each}")
        wanted = repr([desired_of(each) for each in probe.user_objects()])
        earlier, state = self._states.setdefault(wanted, (when, probe.state()))
        found = probe.differences(state, probe.state())
        if found:
            probe.find(
                self.name,
                f"the objects of the user are {when} the same as {earlier}, and the state is not; compute "
                "all of it from the spec, and remove what the spec no longer asks for",
                found,
            )


class OtherProcess(Variation):
    """Repeat the reference run in Python processes with other hash seeds."""

    name = "process"

    async def finish(self, probe: Probe) -> None:
        """Compare the final states."""
        run = probe.run
        operator = operator_reference(run)
        expected = probe.reference.final_state
        for hash_seed in HASH_SEEDS:
            state = final_state_elsewhere(operator, run.scenario, seed=run.seed, hash_seed=hash_seed)
            found = [] if state is None else differences(expected, state, run.tolerances)
            if found:
                probe.find(
                    self.name,
                    f"in a Python process with PYTHONHASHSEED={hash_seed}, the state is another one; sort "
                    "sets before their order matters, and use hashlib instead of hash",
                    found,
                )
                return


def operator_reference(run: SimulatedRun) -> str:
    """Return `module:attribute` of the operator, with which another process can import it; or nothing."""
    factory = run.factory.factory if isinstance(run.factory, OperatorPool) else run.factory
    return factory.reference if isinstance(factory, ModuleFactory) and not run.has_old_version else ""


async def check_restart(probe: Probe, when: str) -> bool:
    """Restart the operator when it is idle, and report what that changes; return whether nothing does."""
    if probe.run.findings or not await probe.settle():
        return False
    before = probe.state()
    probe.restart()
    if not await probe.settle():
        return False
    found = probe.differences(before, probe.state())
    if found:
        probe.find(
            "restart",
            f"{when}, a restart of the idle operator changes the state; watch what the reconciler reads, and "
            "do not depend on the memory of the process",
            found,
        )
        return False
    before = probe.state()
    probe.resync()
    if not await probe.settle():
        return False
    found = probe.differences(before, probe.state())
    if found:
        probe.find(
            "restart",
            f"{when}, a second reconcile of the same state changes it; compute the desired state from the "
            "current one, and write only differences",
            found,
        )
        return False
    before = probe.state()
    probe.run.cluster.reverses_initial_state = True
    probe.restart()
    is_idle = await probe.settle()
    probe.run.cluster.reverses_initial_state = False
    found = probe.differences(before, probe.state()) if is_idle else []
    if found:
        probe.find(
            "restart",
            f"{when}, a restart of the idle operator changes the state if it receives the existing objects "
            "in reverse order; sort what is listed",
            found,
        )
    return not found
