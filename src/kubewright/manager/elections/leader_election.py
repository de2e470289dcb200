"""Leader election among replicas with a Lease.

A candidate acquires the Lease if it has no holder, or if the holder has not renewed it for `lease_duration`
on the candidate's own clock, so clocks need not agree. The leader renews the Lease every `retry_period`, with
one request while no other client changes it. It is the leader only until `renew_deadline` after the last
successful renewal *started*, which is before another replica can acquire the Lease; `is_leader()` computes
this from the clock alone. A process that was paused therefore detects that it lost leadership before its next
renewal fails. The manager checks it before each attempt to write.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, APIError, Conflict, NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.api.values.times import now_micro
from kubewright.client.errors import ConnectionFailed
from kubewright.manager.operators.settings import SettingsError

if TYPE_CHECKING:
    from kubewright.api.coordination.v1 import Lease, LeaseSpec
    from kubewright.client import Client

logger = logging.getLogger(__name__)

NEVER = float("-inf")


class LeadershipLost(Exception):
    """This process is no longer the leader and must not write."""


def boot_clock() -> float:
    """Return a clock in seconds that includes the time while the machine is suspended, where supported."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def default_identity() -> str:
    """Return a unique identity for this process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@lru_cache(maxsize=1)
def _status_metric() -> Any:
    from prometheus_client import Gauge

    return Gauge("leader_election_master_status", "1 if this process is the leader, else 0", ("name",))


class LeaderElector:
    """Acquires and renews a Lease. Permissions: `get`, `create` and `update` of `leases`."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str = "",
        identity: str = "",
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        release_on_stop: bool = True,
        clock: Callable[[], float] = boot_clock,
        rng: random.Random | None = None,
    ) -> None:
        if not retry_period * 1.2 < renew_deadline < lease_duration:
            raise ValueError(
                "leader election requires retry_period x 1.2 < renew_deadline < lease_duration, not "
                f"{retry_period:g} < {renew_deadline:g} < {lease_duration:g}"
            )
        self.name = name
        self.namespace = namespace or in_cluster_namespace(
            "the namespace of the leader election Lease is unknown"
        )
        self.identity = identity or default_identity()
        self.lease_duration = lease_duration
        self.renew_deadline = renew_deadline
        self.retry_period = retry_period
        self.release_on_stop = release_on_stop
        self.leader = ""
        """Identity of the current leader, as last observed."""
        self._client = client
        self.clock = clock
        """Seconds, for deadlines and expiry."""
        self._rng = rng or random.Random()  # noqa: S311 - not used for security
        self._renewed_at = NEVER
        self._observed: tuple[object, ...] | None = None
        self._observed_at = 0.0
        self._uncertain = False
        self._held: Lease | None = None
        """The Lease as this process last wrote it."""
        self._status: Any = _status_metric().labels(name)
        self._status.set(0)

    def is_leader(self) -> bool:
        """Whether this process is the leader now."""
        return self.clock() - self._renewed_at < self.renew_deadline

    def check(self) -> None:
        """Raise `LeadershipLost` if this process is not the leader now."""
        if not self.is_leader():
            raise LeadershipLost(f"{self.identity} no longer holds the lease {self.namespace}/{self.name}")

    def check_health(self) -> None:
        """Health check: fail if the Lease has expired and the process is still running."""
        if self._renewed_at != NEVER and self.clock() - self._renewed_at > self.lease_duration:
            raise LeadershipLost(
                f"the lease {self.namespace}/{self.name} has expired and the process is still running"
            )

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        logger.info("waiting for leadership", extra=self._log_fields())
        while not await self._try():  # noqa: ASYNC110 - polls a server
            await asyncio.sleep(self.retry_period * self._rng.uniform(1.0, 1.2))
        logger.info("acquired leadership", extra=self._log_fields())

    async def try_acquire(self) -> bool:
        """Try once to acquire the Lease; return whether this process is the leader."""
        return await self._try()

    async def renew(self) -> None:
        """Renew the Lease until that fails, then raise `LeadershipLost`."""
        self._status.set(1)
        try:
            await self._renew_until_lost()
        finally:
            self._status.set(0)

    async def _renew_until_lost(self) -> None:
        while True:
            await asyncio.sleep(self.retry_period)
            deadline = self._renewed_at + self.renew_deadline
            while not await self._try_until(deadline):
                if self.clock() >= deadline:
                    self.check()
                    raise LeadershipLost(
                        f"the lease {self.namespace}/{self.name} could not be renewed within "
                        f"{self.renew_deadline:g} s"
                    )
                if self.leader and self.leader != self.identity:
                    self._renewed_at = NEVER
                    raise LeadershipLost(f"{self.leader} acquired the lease {self.namespace}/{self.name}")
                await asyncio.sleep(min(self.retry_period, max(0.0, deadline - self.clock())))

    async def release(self) -> None:
        """Release the Lease, so that another replica can acquire it without waiting until it expires."""
        # An attempt that was cancelled before its response may have acquired the lease.
        held = self._renewed_at != NEVER or self._uncertain
        self._renewed_at = NEVER
        self._held = None
        if not (held and self.release_on_stop):
            return
        try:
            async with asyncio.timeout(self.renew_deadline):
                lease = await self._get()
                if lease is None or lease.spec is None or lease.spec.holder_identity != self.identity:
                    return
                lease.spec.holder_identity = ""
                lease.spec.lease_duration_seconds = 1
                lease.spec.renew_time = lease.spec.acquire_time = now_micro()
                await self._client.update(lease)
        except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
            logger.warning("could not release lease", extra={**self._log_fields(), "error": str(error)})

    async def _try_until(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, deadline - self.clock())):
                return await self._try()
        except TimeoutError:
            return False

    async def _try(self) -> bool:
        """Try to acquire or renew the Lease; return whether this process is the leader now."""
        started = self.clock()
        self._uncertain = True
        try:
            acquired = await self._write()
            self._uncertain = False
        except (Conflict, AlreadyExists):
            self._uncertain = False
            return False
        except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
            logger.warning(
                "could not acquire or renew lease", extra={**self._log_fields(), "error": str(error)}
            )
            return False
        if acquired:
            self.leader = self.identity
            self._renewed_at = started
        return acquired

    async def _write(self) -> bool:
        from kubewright.api.coordination.v1 import Lease, LeaseSpec

        if await self._renew_held():
            return True
        lease = await self._get()
        now = now_micro()
        if lease is None:
            spec = LeaseSpec(
                holder_identity=self.identity,
                lease_duration_seconds=math.ceil(self.lease_duration),
                acquire_time=now,
                renew_time=now,
                lease_transitions=0,
            )
            self._held = await self._client.create(
                Lease(metadata=ObjectMeta(name=self.name, namespace=self.namespace), spec=spec)
            )
            return True
        spec = lease.spec or LeaseSpec()
        unchanged = self._observe(spec)
        holder = self.leader
        if holder and holder != self.identity:
            duration = max(float(spec.lease_duration_seconds or 0), self.lease_duration)
            if unchanged < duration:
                return False
        if holder != self.identity:
            spec.acquire_time = now
            spec.lease_transitions = (spec.lease_transitions or 0) + 1
        spec.holder_identity = self.identity
        spec.lease_duration_seconds = math.ceil(self.lease_duration)
        spec.renew_time = now
        lease.spec = spec
        self._held = await self._client.update(lease)
        return True

    def _observe(self, spec: LeaseSpec) -> float:
        """Record the Lease and its holder; return the seconds since this process saw it change."""
        holder = spec.holder_identity or ""
        seen = (holder, spec.renew_time, spec.acquire_time, spec.lease_transitions)
        # The time of the response, not of the request: the lease may have been renewed in between.
        seen_at = self.clock()
        if seen != self._observed:
            self._observed, self._observed_at = seen, seen_at
        if holder and holder != self.leader:
            logger.info("observed leader", extra={**self._log_fields(), "leader": holder})
        self.leader = holder
        return seen_at - self._observed_at

    async def _renew_held(self) -> bool:
        """Renew the Lease that this process wrote, with one request; return `False` if it has changed."""
        held, self._held = self._held, None
        if held is None or held.spec is None or not self.is_leader():
            return False
        held.spec.renew_time = now_micro()
        try:
            self._held = await self._client.update(held)
        except (Conflict, NotFound):
            return False
        return True

    def _log_fields(self) -> dict[str, str]:
        return {"lease": f"{self.namespace}/{self.name}", "identity": self.identity}

    async def _get(self) -> Lease | None:
        from kubewright.api.coordination.v1 import Lease

        try:
            return await self._client.get(Lease, self.name, namespace=self.namespace)
        except NotFound:
            return None


def in_cluster_namespace(message: str) -> str:
    """Return the namespace of the current pod. Outside of a pod, raises `SettingsError` with `message`."""
    from kubewright.client.config.cluster_config import find_service_account_dir

    try:
        return (find_service_account_dir() / "namespace").read_text().strip()
    except OSError:
        pass
    named = os.environ.get("POD_NAMESPACE", "")
    if not named:
        raise SettingsError(
            f"{message}; outside of a pod, set it with --leader-election-namespace "
            "(settings.leader_election_namespace) or the variable POD_NAMESPACE"
        )
    return named
