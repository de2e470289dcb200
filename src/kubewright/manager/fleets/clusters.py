"""`Clusters`: the connected clusters of all fleets of a running operator.

    @operator.reconcile(Rollout)
    async def reconcile(rollout: Rollout, clusters: Clusters) -> None:
        for cluster in clusters:
            await cluster.client.apply(config_for(rollout))

A reconciler with such a parameter is also called, for all of its objects, when a cluster joins or leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kubewright.manager.cluster import Cluster

ClusterState = Literal["connecting", "ready", "unreachable"]
"""`connecting`: not connected yet. `unreachable`: it does not respond; its cache may be out of date."""


class ClusterNotFound(LookupError):
    """A cluster is not part of the fleet, or was never reachable."""


@dataclass(slots=True)
class ClusterStatus:
    """The connection to one cluster."""

    name: str
    state: ClusterState = "connecting"
    error: str = ""
    """Why it is not ready."""
    failures: int = 0
    """Failed connections and checks since the cluster joined."""


class Clusters:
    """The clusters of all fleets by name; `get("")` is the cluster that the operator runs in."""

    def __init__(self, local: Cluster | None = None) -> None:
        self._local = local
        self._clusters: dict[str, Cluster] = {}
        self._statuses: dict[str, ClusterStatus] = {}

    def get(self, name: str) -> Cluster:
        """Return a connected cluster; raise `ClusterNotFound` if there is none of this name.

        A cluster that has become unreachable remains connected: reads are from its cache, writes fail.
        """
        found = self._clusters.get(name) if name else self._local
        if found is None:
            status = self._statuses.get(name)
            reason = "is not part of a fleet" if status is None else f"is not connected yet: {status.error}"
            raise ClusterNotFound(f"cluster {name!r} {reason}")
        return found

    @property
    def names(self) -> list[str]:
        """Names of the connected clusters."""
        return sorted(self._clusters)

    @property
    def statuses(self) -> list[ClusterStatus]:
        """The connections to all clusters that have joined, also to those that are not connected yet."""
        return [self._statuses[name] for name in sorted(self._statuses)]

    def __iter__(self) -> Iterator[Cluster]:
        return iter([self._clusters[name] for name in sorted(self._clusters)])

    def __contains__(self, name: object) -> bool:
        return name in self._clusters

    def __len__(self) -> int:
        return len(self._clusters)

    def join(self, status: ClusterStatus) -> None:
        """Add a cluster that is not connected yet. Called by the fleet."""
        if status.name in self._statuses:
            raise ValueError(f"cluster name {status.name!r} is already in use by another fleet")
        self._statuses[status.name] = status

    def connect(self, cluster: Cluster) -> None:
        """Add the connection to a cluster. Called by the fleet."""
        self._clusters[cluster.name] = cluster

    def disconnect(self, name: str) -> None:
        """Remove the connection to a cluster. Called by the fleet."""
        self._clusters.pop(name, None)

    def leave(self, name: str) -> None:
        """Remove a cluster. Called by the fleet."""
        self._statuses.pop(name, None)
