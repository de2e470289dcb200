"""One leader among replicas, by a Lease that the leader keeps renewing.

A candidate takes the lease when it is free, or when its holder has not changed it for `lease_duration` by
the candidate's own clock, so clocks need not agree. The leader renews it every `retry_period`. It counts
itself as leader only until `renew_deadline` after the last renewal *began*, which is sooner than anybody else
may take over; `holds()` answers that from the clock alone. So a process that was stopped and wakes up late
knows at its next look that its time is over, even before its renewal fails. The manager asks before each
attempt to write.
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
from kubewright.api.times import now_micro
from kubewright.client.errors import ConnectionFailed

from .settings import SettingsError

if TYPE_CHECKING:
    from kubewright.api.coordination.v1 import Lease
    from kubewright.client import Client

logger = logging.getLogger(__name__)

_NEVER = float("-inf")


class LeadershipLost(Exception):
    """This process is no longer the leader and must not write any more."""


def _clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def default_identity() -> str:
    """A name for this process that no other has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@lru_cache(maxsize=1)
def _status_metric() -> Any:
    from prometheus_client import Gauge

    return Gauge("leader_election_master_status", "1 while this process is the leader, else 0", ("name",))


class LeaderElector:
    """Campaigns for a lease; needs `get`, `create` and `update` on `leases.coordination.k8s.io`."""

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
        clock: Callable[[], float] = _clock,
        rng: random.Random | None = None,
    ) -> None:
        if not retry_period * 1.2 < renew_deadline < lease_duration:
            raise ValueError(
                "leader election needs retry_period x 1.2 < renew_deadline < lease_duration, not "
                f"{retry_period:g} < {renew_deadline:g} < {lease_duration:g}"
            )
        self.name = name
        self.namespace = namespace or in_cluster_namespace("leader election needs a namespace for its lease")
        self.identity = identity or default_identity()
        self.lease_duration = lease_duration
        self.renew_deadline = renew_deadline
        self.retry_period = retry_period
        self.release_on_stop = release_on_stop
        self.leader = ""
        """The identity of the present leader, as last seen."""
        self._client = client
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._renewed_at = _NEVER
        self._observed: tuple[object, ...] | None = None
        self._observed_at = 0.0
        self._unanswered = False
        self._status: Any = _status_metric().labels(name)
        self._status.set(0)

    def holds(self) -> bool:
        """Whether this process may act as the leader right now."""
        return self._clock() - self._renewed_at < self.renew_deadline

    def check(self) -> None:
        """Raise `LeadershipLost` unless this process may act as the leader right now."""
        if not self.holds():
            raise LeadershipLost(f"{self.identity} no longer holds the lease {self.namespace}/{self.name}")

    def check_health(self) -> None:
        """A health check: a leader whose time is over should have ended long ago."""
        if self._renewed_at != _NEVER and self._clock() - self._renewed_at > self.lease_duration:
            raise LeadershipLost(f"the lease {self.namespace}/{self.name} ran out and the process goes on")

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        logger.info("%s: waiting to become the leader of %s/%s", self.identity, self.namespace, self.name)
        while not await self._try():  # noqa: ASYNC110 - asks a server, which sends no signal
            await asyncio.sleep(self.retry_period * self._rng.uniform(1.0, 1.2))
        logger.info("%s: became the leader of %s/%s", self.identity, self.namespace, self.name)

    async def keep(self) -> None:
        """Renew until that is no longer possible, then raise `LeadershipLost`."""
        self._status.set(1)
        try:
            await self._renew()
        finally:
            self._status.set(0)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.retry_period)
            deadline = self._renewed_at + self.renew_deadline
            while not await self._try_until(deadline):
                if self._clock() >= deadline:
                    self.check()
                    raise LeadershipLost(
                        f"the lease {self.namespace}/{self.name} could not be renewed in time"
                    )
                if self.leader and self.leader != self.identity:
                    self._renewed_at = _NEVER
                    raise LeadershipLost(f"{self.leader} has taken the lease {self.namespace}/{self.name}")
                await asyncio.sleep(min(self.retry_period, max(0.0, deadline - self._clock())))

    async def release(self) -> None:
        """Give the lease up so that another one need not wait for it to run out."""
        # A campaign that was broken off may have been won without our knowing.
        held = self._renewed_at != _NEVER or self._unanswered
        self._renewed_at = _NEVER
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
            logger.warning("the lease %s/%s could not be released: %s", self.namespace, self.name, error)

    async def _try_until(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock())):
                return await self._try()
        except TimeoutError:
            return False

    async def _try(self) -> bool:
        """Take or renew the lease; whether this process is the leader now."""
        began = self._clock()
        self._unanswered = True
        try:
            taken = await self._write()
            self._unanswered = False
        except (Conflict, AlreadyExists):
            self._unanswered = False
            return False
        except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
            logger.warning("leader election on %s/%s: %s", self.namespace, self.name, error)
            return False
        if taken:
            self.leader = self.identity
            self._renewed_at = began
        return taken

    async def _write(self) -> bool:
        from kubewright.api.coordination.v1 import Lease, LeaseSpec

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
            await self._client.create(
                Lease(metadata=ObjectMeta(name=self.name, namespace=self.namespace), spec=spec)
            )
            return True
        spec = lease.spec or LeaseSpec()
        holder = spec.holder_identity or ""
        seen = (holder, spec.renew_time, spec.acquire_time, spec.lease_transitions)
        # The moment it was seen, not the one it was asked for: it may have been renewed in between.
        seen_at = self._clock()
        if seen != self._observed:
            self._observed, self._observed_at = seen, seen_at
        if holder and holder != self.leader:
            logger.info("%s/%s: the leader is %s", self.namespace, self.name, holder)
        self.leader = holder
        if holder and holder != self.identity:
            duration = max(float(spec.lease_duration_seconds or 0), self.lease_duration)
            if seen_at - self._observed_at < duration:
                return False
        if holder != self.identity:
            spec.acquire_time = now
            spec.lease_transitions = (spec.lease_transitions or 0) + 1
        spec.holder_identity = self.identity
        spec.lease_duration_seconds = math.ceil(self.lease_duration)
        spec.renew_time = now
        lease.spec = spec
        await self._client.update(lease)
        return True

    async def _get(self) -> Lease | None:
        from kubewright.api.coordination.v1 import Lease

        try:
            return await self._client.get(Lease, self.name, namespace=self.namespace)
        except NotFound:
            return None


def in_cluster_namespace(why: str) -> str:
    """The namespace of the pod this runs in; outside of a cluster one has to be named, and `why` is said."""
    try:
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace") as file:
            return file.read().strip()
    except OSError:
        pass
    named = os.environ.get("POD_NAMESPACE", "")
    if not named:
        raise SettingsError(
            f"{why}, and this is not a pod: name one with --leader-election-namespace "
            "(settings.leader_election_namespace) or the variable POD_NAMESPACE"
        )
    return named
