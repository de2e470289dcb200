"""Networks in a system outside of the cluster: created, updated and deleted with their objects.

The external system is a service (`operator.provide`), so that tests can replace it. The finalizer deletes a
network there before its object is deleted.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kubewright import (
    Column,
    Condition,
    Context,
    CustomResource,
    Operator,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import Cel, ListMap, MaxLen, mark


@mark(
    Cel("isCIDR(self.cidr)", message="cidr must be a network such as 192.168.0.0/16"),
    Cel(
        "!isCIDR(self.cidr) || (isIP(self.gateway) && cidr(self.cidr).containsIP(self.gateway))",
        message="gateway must be an address in cidr",
    ),
)
class NetworkSpec(Spec):
    """A network."""

    cidr: Annotated[str, MaxLen(43)]
    """Range of addresses, such as 192.168.0.0/16."""
    gateway: Annotated[str, MaxLen(39)]
    """Address of the gateway, in the range."""


class NetworkStatus(Status):
    """State of the network in the external system."""

    id: str | None = None
    """Identifier in the external system."""
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(
    group="samplecrd.k8s.io",
    version="v1",
    columns=(
        Column("CIDR", ".spec.cidr"),
        Column("Gateway", ".spec.gateway"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    ),
    annotations={"api-approved.kubernetes.io": "unapproved, example only"},
)
class Network(CustomResource[NetworkSpec, NetworkStatus]):
    """A network in a system outside of the cluster."""


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Configuration of a network in the external system."""

    cidr: str
    gateway: str


class NetworkBackend:
    """The external system: here a JSON file. All methods can be repeated with the same arguments."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def find(self, id: str) -> NetworkConfig | None:
        """Return the configuration of a network, or `None` if it does not exist."""
        found = self._read().get(id)
        return NetworkConfig(**found) if found is not None else None

    async def apply(self, id: str, config: NetworkConfig) -> None:
        """Create a network, or change its configuration."""
        self._write({**self._read(), id: {"cidr": config.cidr, "gateway": config.gateway}})

    async def delete(self, id: str) -> None:
        """Delete a network, if it exists."""
        self._write({key: value for key, value in self._read().items() if key != id})

    def _read(self) -> dict[str, dict[str, str]]:
        networks: dict[str, dict[str, str]] = json.loads(self.path.read_text()) if self.path.exists() else {}
        return networks

    def _write(self, networks: dict[str, dict[str, str]]) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps(networks, indent=2) + "\n")
        temporary.replace(self.path)


def file_backend() -> NetworkBackend:
    """Return the backend for the file in the variable NETWORKS, by default networks.json."""
    return NetworkBackend(Path(os.environ.get("NETWORKS", "networks.json")))


def network_id(network: Network) -> str:
    """Return the identifier in the external system; it is the same after a restart."""
    return f"{network.metadata.namespace}-{network.name}"


operator = Operator("network")
operator.provide(NetworkBackend, file_backend)


@operator.reconcile(Network)
async def reconcile(network: Network, ctx: Context[Network], backend: NetworkBackend) -> None:
    """Create the network in the external system, or change it if it differs."""
    id, wanted = network_id(network), NetworkConfig(network.spec.cidr, network.spec.gateway)
    current = await backend.find(id)
    if current != wanted:
        await backend.apply(id, wanted)
        reason = "Created" if current is None else "Updated"
        ctx.event("Normal", reason, f"{reason.lower()} network {id} with {wanted.cidr}")
    network.status.id = id
    set_condition(
        network.status,
        Condition(
            type="Ready", status="True", reason="Configured", observed_generation=network.metadata.generation
        ),
    )
    await ctx.update_status()


@operator.finalize(Network)
async def delete(network: Network, backend: NetworkBackend) -> None:
    """Delete the network in the external system."""
    await backend.delete(network_id(network))
