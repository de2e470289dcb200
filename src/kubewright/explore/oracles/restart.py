"""`Restart`: a restart of the idle operator changes nothing, and neither does a second reconcile.

After each step that changes something, the operator becomes idle; it is then restarted. If the new process
changes the state, the old one has not reacted to something that it reads (a Secret, an annotation that a
predicate filters, an object that was created later), or the state depends on the memory of the process.

`Settled` only lets the operator become idle. Where the objects of the user are the same as after an earlier
step, the state must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .probe import Probe, desired_of
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.final_state import NormalisedState


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
    return not found
