"""`AlignedSteps`: steps of a run at the times of the reference run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .steps import ClientSteps, seconds

if TYPE_CHECKING:
    from kubewright.explore.runs.run_result import Run


class AlignedSteps(ClientSteps):
    """Steps whose `advance` ends at the same virtual time as in the reference run.

    A fault that delays a step would otherwise shift everything that follows, and an operator that acts on
    times would end in another state for no reason.
    """

    def __init__(self, client: Any, reference: Run | None, **options: Any) -> None:
        super().__init__(client, **options)
        self._reference = reference
        self.ends: list[float] = []

    async def advance(self, duration: float | str) -> None:
        """Let virtual time pass."""
        number = self.count
        ends = self._reference.step_ends if self._reference is not None else []
        loop = asyncio.get_running_loop()
        delay = seconds(duration)
        if self._begin(f"advance {duration if isinstance(duration, str) else f'{delay:g}s'}"):
            until = ends[number] if number < len(ends) else loop.time() + delay
            await asyncio.sleep(max(until - loop.time(), 0.0))

    def _begin(self, description: str, *, timeout: float = 0.0) -> bool:
        self.end_last()
        return super()._begin(description, timeout=timeout)

    def end_last(self) -> None:
        """Record that the last step has ended."""
        if self.count > len(self.ends):
            self.ends.append(asyncio.get_running_loop().time())
