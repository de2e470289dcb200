"""Leader election of controllers: of the replicas on one storage, one runs the controllers and the nodes.

Replicas compete for the Lease `kube-system/kube-controller-manager`, as replicas of kube-controller-manager
do. The leader starts the controllers; when it cannot renew the Lease, it stops them and competes again. A
replica that is stopped releases the Lease, so that another continues within the retry period; one that is
killed is replaced when its Lease has expired. What belongs to the API server itself (custom resources,
aggregation, repair of service allocations) runs on every replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kubewright.background import run_forever
from kubewright.manager.elections.leader_election import LeaderElector, LeadershipLost

if TYPE_CHECKING:
    from kubewright.client import Client

logger = logging.getLogger("kubewright.controlplane")

NAME = "kube-controller-manager"
NAMESPACE = "kube-system"
RETRY_DELAY = 1.0
"""Seconds until the controllers are started again after a failure."""


class ControllerElection:
    """Starts controllers when this replica becomes the leader, and stops them when it is not any more."""

    def __init__(
        self,
        client: Client,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        *,
        lease_duration: float,
    ) -> None:
        """The proportions of the deadlines are those of kube-controller-manager (15, 10 and 2 seconds)."""
        self._start_controllers = start
        self._stop_controllers = stop
        self._elector = LeaderElector(
            client,
            NAME,
            namespace=NAMESPACE,
            lease_duration=lease_duration,
            renew_deadline=lease_duration * 2 / 3,
            retry_period=lease_duration * 2 / 15,
        )
        self._task: asyncio.Task[None] | None = None
        self._first_term = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Whether this replica holds the Lease."""
        return self._elector.is_leader()

    async def start(self) -> None:
        """Compete for the Lease; if it is free, return when the controllers are started."""
        acquired = await self._elector.try_acquire()
        self._task = run_forever(self._run, name="controller election")
        if acquired:
            await self._first_term.wait()

    async def stop(self) -> None:
        """Stop the controllers and release the Lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._elector.release()

    async def _run(self) -> None:
        while True:
            await self._elector.acquire()
            try:
                await self._lead()
            except LeadershipLost as error:
                logger.warning("controllers stopped", extra={"error": str(error)})
            except Exception:
                logger.exception("could not start controllers; retrying")
                await self._elector.release()
                await asyncio.sleep(RETRY_DELAY)

    async def _lead(self) -> None:
        """Run the controllers until leadership is lost."""
        renewing = asyncio.create_task(self._elector.renew())
        starting = asyncio.ensure_future(self._start_controllers())
        try:
            await asyncio.wait([renewing, starting], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
            self._first_term.set()
            await renewing
        finally:
            self._first_term.set()
            for task in (starting, renewing):
                task.cancel()
            await asyncio.gather(starting, renewing, return_exceptions=True)
            await self._stop_controllers()
