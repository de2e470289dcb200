"""`Handle`: what a plug-in can use of the scheduler."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kubewright.api.core.v1 import Pod
from kubewright.client import Client
from kubewright.workloads.scheduler.state.cache import Snapshot
from kubewright.workloads.scheduler.state.nominator import Nominator
from kubewright.workloads.scheduler.state.pod_info import PodInfo

from .listers import Lister, StaticLister
from .waiting_pods import WaitingPods

if TYPE_CHECKING:
    from kubewright.workloads.scheduler.extender import Extender

    from .framework import Framework

RecordEvent = Callable[[Pod, Literal["Normal", "Warning"], str, str, str, Pod | None], None]
"""Record an event: pod, type, reason, action, message, related pod."""


def _record_nothing(
    pod: Pod, type: Literal["Normal", "Warning"], reason: str, action: str, message: str, related: Pod | None
) -> None:
    """Record no events, in a simulation."""


@dataclass(slots=True, kw_only=True)
class Handle:
    """The parts of a scheduler that plug-ins use. One per profile."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    """Nodes and pods at the start of the scheduling cycle."""
    lister: Lister = field(default_factory=StaticLister)
    """Objects of the kinds that plug-ins declare."""
    nominator: Nominator = field(default_factory=Nominator)
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    extenders: Sequence[Extender] = ()
    client: Client | None = None
    """Client of the cluster; `None` in a simulation."""
    rng: random.Random = field(default_factory=random.Random)
    record_event: RecordEvent = _record_nothing
    activate: Callable[[Iterable[PodInfo]], None] = lambda pods: None
    """Move pending pods to the active queue without waiting for an event or backoff."""
    framework: Framework | None = None
    """The plug-ins of the profile."""
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine; the scheduler waits for it when it stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_background(self) -> None:
        """Wait for the coroutines that run in the background."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def notify_change(self) -> None:
        """An object that plug-ins read has changed."""
        if not self._changed.is_set():
            self._changed.set()

    async def wait_for(self, condition: Callable[[], bool], *, timeout: float) -> bool:
        """Wait until a condition on objects of the lister is true; return whether it is."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True
