"""Coordinated leader election: kube-apiserver chooses the leader among LeaseCandidates.

Each replica creates a LeaseCandidate whose name is its identity, and renews it every few minutes and whenever
the server asks for it by setting `spec.pingTime`. The server writes the identity of the leader to the Lease.
A replica renews the Lease only while `spec.holderIdentity` is its identity, and never creates it or takes it
over. When the server prefers another candidate (`spec.preferredHolder`), the leader stops.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, APIError, NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.api.values.times import now_micro
from kubewright.background import run_forever
from kubewright.client.errors import ConnectionFailed, NoKindMatch

from .leader_election import NEVER, LeaderElector, LeadershipLost

if TYPE_CHECKING:
    from kubewright.api.coordination.v1beta1 import LeaseCandidate
    from kubewright.client import Client

logger = logging.getLogger(__name__)

CANDIDATE_RENEW_SECONDS = 300.0
"""Seconds between renewals of a LeaseCandidate; the server deletes it after 30 minutes without one."""
STRATEGY = "OldestEmulationVersion"


class CoordinatedLeaderElector(LeaderElector):
    """Waits until the server makes this process the leader; ordinary leader election where it cannot.

    `version` is the semantic version of the program; the candidate with the lowest one becomes the leader.
    Permissions: those of `LeaderElector`, and `get`, `list`, `watch`, `create` and `update` of
    `leasecandidates`.
    """

    def __init__(self, client: Client, name: str, *, version: str = "1.0.0", **options: Any) -> None:
        super().__init__(client, name, **options)
        self.version = version
        self.coordinated = True
        """Whether the server chooses the leader; `False` once it turned out not to serve LeaseCandidates."""
        self._candidate_task: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Register this process as a candidate, then wait until it is the leader."""
        try:
            await self._register()
        except _NotServed:
            self.coordinated = False
            logger.warning(
                "server does not serve LeaseCandidates, using leader election without coordination",
                extra=self._log_fields(),
            )
        else:
            self._candidate_task = run_forever(self._keep_candidate, name="lease candidate")
        await super().acquire()

    async def release(self) -> None:
        """Stop being a candidate and release the Lease."""
        if self._candidate_task is not None:
            self._candidate_task.cancel()
            await asyncio.wait([self._candidate_task])
            self._candidate_task = None
        await super().release()

    async def _write(self) -> bool:
        if not self.coordinated:
            return await super()._write()
        if await self._renew_held():
            return True
        lease = await self._get()
        if lease is None or lease.spec is None:
            return False
        spec = lease.spec
        unchanged = self._observe(spec)
        if spec.preferred_holder and self.is_leader():
            self._renewed_at = NEVER
            raise LeadershipLost(
                f"the server prefers {spec.preferred_holder} as the holder of the lease "
                f"{self.namespace}/{self.name}"
            )
        expired = unchanged >= float(spec.lease_duration_seconds or 0)
        if self.leader != self.identity or spec.preferred_holder or expired:
            return False
        spec.lease_duration_seconds = math.ceil(self.lease_duration)
        spec.renew_time = now_micro()
        self._held = await self._client.update(lease)
        return True

    async def _register(self) -> None:
        while True:
            try:
                return await self._renew_candidate()
            except (APIError, ConnectionFailed, OSError, TimeoutError) as error:
                self._log_candidate_failure(error)
            await asyncio.sleep(self.retry_period)

    async def _keep_candidate(self) -> None:
        """Renew the LeaseCandidate when the server asks for it, and regularly."""
        while True:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CANDIDATE_RENEW_SECONDS):
                        await self._renew_when_pinged()
                await self._renew_candidate()
                continue
            except (APIError, ConnectionFailed, OSError, TimeoutError, _NotServed) as error:
                self._log_candidate_failure(error)
            await asyncio.sleep(self.retry_period)

    async def _renew_when_pinged(self) -> None:
        """Return when the LeaseCandidate has been deleted or is to be renewed."""
        from kubewright.api.coordination.v1beta1 import LeaseCandidate

        async with self._client.watch(
            LeaseCandidate, name=self.identity, namespace=self.namespace
        ) as candidates:
            async for event in candidates:
                if event.type == "DELETED" or _is_pinged(event.object):
                    return

    async def _renew_candidate(self) -> None:
        """Create or renew the LeaseCandidate of this process."""
        from kubewright.api.coordination.v1beta1 import LeaseCandidate, LeaseCandidateSpec

        try:
            candidate = await self._client.get(LeaseCandidate, self.identity, namespace=self.namespace)
        except NoKindMatch as error:
            raise _NotServed(str(error)) from error
        except NotFound as error:
            if not _is_missing_object(error, self.identity):
                raise _NotServed(str(error)) from error
            spec = LeaseCandidateSpec(
                lease_name=self.name,
                binary_version=self.version,
                emulation_version=self.version,
                strategy=STRATEGY,
                renew_time=now_micro(),
            )
            metadata = ObjectMeta(name=self.identity, namespace=self.namespace)
            with suppress(AlreadyExists):
                await self._client.create(LeaseCandidate(metadata=metadata, spec=spec))
            return
        if candidate.spec is not None:
            candidate.spec.renew_time = now_micro()
            await self._client.update(candidate)

    def _log_candidate_failure(self, error: BaseException) -> None:
        logger.warning(
            "could not create or renew lease candidate", extra={**self._log_fields(), "error": str(error)}
        )


class _NotServed(Exception):
    """The server does not serve LeaseCandidates."""


def _is_missing_object(error: NotFound, name: str) -> bool:
    """Whether the server serves the kind, and only the object does not exist."""
    unexpected = any(cause.get("reason") == "UnexpectedServerResponse" for cause in error.causes)
    return error.details.get("name") == name and not unexpected


def _is_pinged(candidate: LeaseCandidate) -> bool:
    spec = candidate.spec
    if spec is None or spec.ping_time is None:
        return False
    return spec.renew_time is None or spec.ping_time > spec.renew_time
