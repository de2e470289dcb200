"""`MemberLeases`: the Leases of the replicas of a sharded operator.

A replica is a member while its Lease exists. The Lease of a replica that has not renewed it for its duration,
on the clock of the observer, is deleted on the condition that it has not changed. So a replica that renews at
the same moment stays a member, and one that renews later notices that it is not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kubewright.api.coordination.v1 import Lease, LeaseSpec
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.meta import ObjectMeta, Preconditions
from kubewright.api.values.times import now_micro

if TYPE_CHECKING:
    from kubewright.client import Client

LABEL: Final = "kubewright.dev/shards-of"


class MemberLeases:
    """Joins, renews, observes and removes members."""

    def __init__(
        self, client: Client, name: str, namespace: str, duration: float, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._duration = duration
        self._clock = clock
        self._own: Lease | None = None
        self._seen: dict[str, tuple[str, float]] = {}
        """Name of a Lease to its resource version, and when this process first saw that."""

    async def join(self, identity: str) -> None:
        """Create the Lease of this process."""
        now = now_micro()
        spec = LeaseSpec(
            holder_identity=identity,
            lease_duration_seconds=math.ceil(self._duration),
            acquire_time=now,
            renew_time=now,
        )
        suffix = hashlib.sha256(identity.encode()).hexdigest()[:10]
        metadata = ObjectMeta(
            name=f"{self._name}-shard-{suffix}", namespace=self._namespace, labels={LABEL: self._name}
        )
        self._own = await self._client.create(Lease(metadata=metadata, spec=spec))

    async def renew(self) -> bool:
        """Renew the Lease of this process; false if it was deleted or changed: the membership is lost."""
        assert self._own is not None
        assert self._own.spec is not None
        self._own.spec.renew_time = now_micro()
        try:
            self._own = await self._client.update(self._own)
        except (Conflict, NotFound):
            return False
        return True

    async def leave(self) -> None:
        """Delete the Lease of this process."""
        if self._own is not None:
            await self._delete(self._own)
            self._own = None

    async def remove_expired(self) -> list[str]:
        """Delete the Leases that expired; return the identities of the members, sorted."""
        leases = await self._client.list(Lease, namespace=self._namespace, labels={LABEL: self._name})
        now = self._clock()
        members: list[str] = []
        seen: dict[str, tuple[str, float]] = {}
        for lease in leases:
            name, version = lease.metadata.name or "", lease.metadata.resource_version or ""
            since = self._seen.get(name)
            seen[name] = since if since is not None and since[0] == version else (version, now)
            spec = lease.spec or LeaseSpec()
            duration = max(float(spec.lease_duration_seconds or 0), self._duration)
            if now - seen[name][1] > duration and await self._delete(lease):
                continue
            members.append(spec.holder_identity or "")
        self._seen = seen
        return sorted(members)

    async def _delete(self, lease: Lease) -> bool:
        """Delete a Lease if it has not changed; return whether it does not exist any more."""
        metadata = lease.metadata
        try:
            await self._client.delete(
                Lease,
                metadata.name or "",
                namespace=self._namespace,
                preconditions=Preconditions(resource_version=metadata.resource_version),
            )
        except NotFound:
            pass
        except Conflict:
            return False
        return True
