"""Explore the network operator with an external system that fails.

kubewright explore scenario:operator --scenario scenario.py
"""

from __future__ import annotations

from pathlib import Path

from kubewright import ObjectMeta
from kubewright.explore import ClusterState, ExternalFake, Steps, at_end, finalizers_removed, scenario
from network import Network, NetworkBackend, NetworkConfig, NetworkSpec, operator

networks = ExternalFake("networks")


class FakeBackend(NetworkBackend):
    """Networks in an external system whose calls are points of a run."""

    async def find(self, id: str) -> NetworkConfig | None:
        """Return a network."""
        found: NetworkConfig | None = await networks.get(id)
        return found

    async def apply(self, id: str, config: NetworkConfig) -> None:
        """Create or change a network."""
        await networks.put(id, config)

    async def delete(self, id: str) -> None:
        """Delete a network."""
        await networks.delete(id)


override = operator.override(NetworkBackend, FakeBackend(Path("unused")))
override.__enter__()


@at_end
def no_network_remains(state: ClusterState) -> str | None:
    """Networks of deleted objects are deleted."""
    left = set(networks.items)
    return f"networks remain: {', '.join(sorted(left))}" if left else None


@scenario(invariants=[no_network_remains, finalizers_removed()])
async def change_and_delete(steps: Steps) -> None:
    """Create, change and delete a network."""
    spec = NetworkSpec(cidr="192.168.0.0/16", gateway="192.168.0.1")
    await steps.apply(Network(metadata=ObjectMeta(name="example"), spec=spec))
    await steps.wait(Network, "example", condition="Ready")
    await steps.patch(Network, "example", {"spec": {"gateway": "192.168.0.2"}})
    await steps.advance("1m")
    await steps.delete(Network, "example")
    await steps.wait(Network, "example", absent=True)
