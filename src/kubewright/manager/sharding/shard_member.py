"""`ShardMember`: this process as one of the replicas that share the objects of an operator.

It has the interface of a leader elector, so a manager joins before it starts controllers, renews, rejects
writes when the Lease may have expired, and leaves at the end. Every controller runs on every replica; a
request is reconciled by the owner of its partition (`Ownership`).

One loop renews the Lease, reads the map, hands over partitions that have another next owner and no running
reconciles, and takes those that are free. The member with the first identity balances the map.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from kubewright.api.coordination.v1 import Lease
from kubewright.api.errors import AlreadyExists, APIError, Conflict, Expired, NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.background import run_forever
from kubewright.client.errors import ConnectionFailed
from kubewright.manager.elections.leader_election import (
    NEVER,
    LeadershipLost,
    boot_clock,
    default_identity,
    in_cluster_namespace,
)

from .members import LABEL, MemberLeases
from .shard_map import PARTITIONS, ShardMap, partition_of

if TYPE_CHECKING:
    from kubewright.client import Client

logger = logging.getLogger(__name__)

ANNOTATION: Final = "kubewright.dev/shard-map"
_FAILURES: Final = (APIError, ConnectionFailed, OSError, TimeoutError)


class ShardMember:
    """Joins the replicas of an operator. Permissions: all verbs of `leases` in one namespace."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str = "",
        identity: str = "",
        partitions: int = PARTITIONS,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        if not retry_period * 1.2 < renew_deadline < lease_duration:
            raise ValueError(
                "sharding requires retry_period x 1.2 < renew_deadline < lease_duration, not "
                f"{retry_period:g} < {renew_deadline:g} < {lease_duration:g}"
            )
        self.name = name
        self.namespace = namespace or in_cluster_namespace("the namespace of the shard Leases is unknown")
        self.identity = identity or default_identity()
        self.partitions = partitions
        self.lease_duration = lease_duration
        self.renew_deadline = renew_deadline
        self.retry_period = retry_period
        self.clock = clock
        self.owned: frozenset[int] = frozenset()
        """The partitions that this process reconciles."""
        self.on_gain: list[Callable[[], None]] = []
        """Functions to call when this process owns more partitions than before."""
        self._client = client
        self._members = MemberLeases(client, name, self.namespace, lease_duration, lambda: self.clock())
        self._renewed_at = NEVER
        self._running: Counter[int] = Counter()
        self._wake = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    # Ownership

    def enter(self, request: Hashable) -> bool:
        """Return whether this process owns a request now; if so, `leave` follows."""
        partition = partition_of(request, self.partitions)
        if partition not in self.owned or not self.is_leader():
            return False
        self._running[partition] += 1
        return True

    def leave(self, request: Hashable) -> None:
        """Report that the reconcile of a request has ended."""
        partition = partition_of(request, self.partitions)
        self._running[partition] -= 1
        if not self._running[partition]:
            del self._running[partition]
            if partition not in self.owned:
                self._wake.set()  # it can be handed over now

    # The interface of an elector

    def is_leader(self) -> bool:
        """Whether this process is a member now, by its clock."""
        return self.clock() - self._renewed_at < self.renew_deadline

    def check(self) -> None:
        """Raise `LeadershipLost` if this process may not be a member any more."""
        if not self.is_leader():
            raise LeadershipLost(f"{self.identity} is no longer a shard of {self.namespace}/{self.name}")

    def check_health(self) -> None:
        """Health check: fail if the Lease has expired and the process is still running."""
        if self._renewed_at != NEVER and self.clock() - self._renewed_at > self.lease_duration:
            raise LeadershipLost(
                f"the shard lease of {self.identity} has expired and the process is still running"
            )

    async def acquire(self) -> None:
        """Join."""
        while True:
            started = self.clock()
            try:
                await self._members.join(self.identity)
                break
            except _FAILURES as error:
                logger.warning("could not join shards", extra={**self._log_fields(), "error": str(error)})
            await asyncio.sleep(self.retry_period)
        self._renewed_at = started
        self._watching = run_forever(self._watch, name="shard map")
        logger.info("joined shards", extra=self._log_fields())

    async def renew(self) -> None:
        """Take part until the Lease cannot be renewed, then raise `LeadershipLost`."""
        while True:
            await self._renew_lease()
            try:
                async with asyncio.timeout(max(0.0, self._renewed_at + self.renew_deadline - self.clock())):
                    await self._take_part()
            except _FAILURES as error:
                logger.warning("could not update shards", extra={**self._log_fields(), "error": str(error)})
            try:
                async with asyncio.timeout(self.retry_period):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def release(self) -> None:
        """Leave: hand over the partitions, and delete the Lease.

        The manager has stopped the controllers, so nothing works on the partitions any more.
        """
        was_member = self._renewed_at != NEVER
        self._renewed_at = NEVER
        self.owned = frozenset()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if not was_member:
            return
        try:
            async with asyncio.timeout(self.renew_deadline):
                await self._members.leave()
        except _FAILURES as error:
            logger.warning("could not leave shards", extra={**self._log_fields(), "error": str(error)})

    # The loop

    async def _renew_lease(self) -> None:
        """Renew if it is time to; raise `LeadershipLost` if that was not possible until the deadline."""
        if self.clock() - self._renewed_at < self.retry_period / 2:
            return
        deadline = self._renewed_at + self.renew_deadline
        while True:
            started = self.clock()
            try:
                async with asyncio.timeout(max(0.0, deadline - started)):
                    if not await self._members.renew():
                        self._renewed_at = NEVER
                        raise LeadershipLost(f"another replica removed {self.identity} from the shards")
                self._renewed_at = started
                return
            except _FAILURES as error:
                logger.warning("could not renew lease", extra={**self._log_fields(), "error": str(error)})
            if self.clock() >= deadline:
                raise LeadershipLost(f"the lease of {self.identity} could not be renewed in time")
            await asyncio.sleep(min(self.retry_period / 2, max(0.0, deadline - self.clock())))

    async def _take_part(self) -> None:
        """Balance the map if this is the first member, hand over and take partitions."""
        members = await self._members.remove_expired()
        stored, shards = await self._read()
        before = shards.encode()
        if members and members[0] == self.identity:
            shards.balance(members)
        leaving = shards.leaving(self.identity)
        # From now on no reconcile of these partitions starts here.
        self.owned -= leaving
        shards.hand_over(partition for partition in leaving if not self._running[partition])
        if shards.encode() != before:
            try:
                await self._write(stored, shards)
            except (Conflict, AlreadyExists):
                self._wake.set()  # another replica was faster
                return
        self._take(frozenset(shards.owned_by(self.identity)))

    def _take(self, owned: frozenset[int]) -> None:
        gained = owned - self.owned
        if owned != self.owned:
            logger.info("changed shards", extra={**self._log_fields(), "partitions": len(owned)})
        self.owned = owned
        if gained:
            for function in self.on_gain:
                function()

    async def _read(self) -> tuple[Lease | None, ShardMap]:
        try:
            stored = await self._client.get(Lease, self._map_name, namespace=self.namespace)
        except NotFound:
            return None, ShardMap.empty(self.partitions)
        text = (stored.metadata.annotations or {}).get(ANNOTATION, "")
        try:
            return stored, ShardMap.decode(text, self.partitions)
        except ValueError as error:
            raise LeadershipLost(f"{self.namespace}/{self._map_name}: {error}") from None

    async def _write(self, stored: Lease | None, shards: ShardMap) -> None:
        if stored is None:
            metadata = ObjectMeta(
                name=self._map_name,
                namespace=self.namespace,
                labels={LABEL + "-map": self.name},
                annotations={ANNOTATION: shards.encode()},
            )
            await self._client.create(Lease(metadata=metadata))
            return
        stored.metadata.annotations = {**(stored.metadata.annotations or {}), ANNOTATION: shards.encode()}
        await self._client.update(stored)

    async def _watch(self) -> None:
        """Wake the loop when the map changes."""
        while True:
            try:
                async for _ in self._client.watch(Lease, name=self._map_name, namespace=self.namespace):
                    self._wake.set()
            except (Expired, *_FAILURES):
                await asyncio.sleep(self.retry_period)

    @property
    def _map_name(self) -> str:
        return f"{self.name}-shards"

    def _log_fields(self) -> dict[str, str]:
        return {"shards": f"{self.namespace}/{self.name}", "identity": self.identity}
