"""`ProcessTarget`: what a fault can do with a simulated process. Targets of requests extend it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kubewright.client.errors import ConnectionFailed
from kubewright.explore.faults import FaultError, FaultTarget

if TYPE_CHECKING:
    from kubewright.explore.runs.trace import TraceEvent

    from .processes import OperatorProcess


async def never() -> None:
    """Wait forever, in a process that was killed."""
    await asyncio.get_running_loop().create_future()


def complete(work: Coroutine[Any, Any, None]) -> None:
    """Run a fault that does not wait, where a decision is made without waiting."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise FaultError("a fault cannot wait at this point")


class ProcessTarget(FaultTarget):
    """A process at a point."""

    def __init__(self, process: OperatorProcess, event: TraceEvent) -> None:
        self.process = process
        self.cluster = process.cluster
        self.event = event

    async def wait(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    async def disconnect(self, seconds: float) -> None:
        """Make the API server unreachable for the process."""
        self.cluster.disconnect(self.process, seconds)
        raise ConnectionFailed("connection refused", sent=False)

    async def crash(self, *, lag: float = 0.0) -> None:
        """Kill the process, and restart it later."""
        self.cluster.crash(self.process, lag=lag, lag_revision=max(self.event.revision - 1, 1))
        await never()

    async def upgrade(self) -> None:
        """Kill the process, and start the new version of the operator."""
        self.cluster.upgrade(self.process)
        await never()

    async def pause(self, seconds: float) -> None:
        """Stop the process, and continue it later."""
        self.cluster.pause(self.process, seconds)
        await asyncio.sleep(0)

    async def lose_lease(self, seconds: float) -> None:
        """Fail requests for Leases."""
        self.process.lease_unreachable_until = self.cluster.loop.now + seconds

    async def set_clock(self, seconds: float) -> None:
        """Set the clock of the process."""
        self.process.skew = seconds

    async def set_priorities(self, seed: int) -> None:
        """Give the tasks of reconciles random priorities."""
        self.process.schedule.set_priorities(seed)
