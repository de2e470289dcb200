"""The contract between the cloud controllers and a cloud: `CloudProvider` and the protocols of its parts.

A part that a cloud does not have is `None`, and its controller is not started. Objects that a provider
receives must not be changed. Methods must be idempotent: they are called again after errors and restarts.

Errors that a cloud provider raises to control what its caller does next. Other errors are retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kubewright.controller.request import TemporaryError

if TYPE_CHECKING:
    from kubewright.api.core.v1 import LoadBalancerStatus, Node, NodeAddress, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMetadata:
    """What the cloud knows about the instance of a node; empty fields do not change the node."""

    provider_id: str = ""
    """Identifies the instance, usually `<provider>://<instance>`; becomes `spec.providerID`."""
    instance_type: str = ""
    """Value of the label `node.kubernetes.io/instance-type`."""
    addresses: Sequence[NodeAddress] = ()
    """Addresses; become `status.addresses`."""
    zone: str = ""
    """Value of the label `topology.kubernetes.io/zone`."""
    region: str = ""
    """Value of the label `topology.kubernetes.io/region`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Additional labels. Those of `kubernetes.io` and `k8s.io` are ignored, and existing labels are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """Location of an instance."""

    zone: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route from a range of pod addresses to the node of the pods."""

    destination_cidr: str
    """Pod CIDR of the node."""
    target_node: str
    """Name of the node; empty for routes to other targets."""
    name: str = ""
    """Name in the cloud; ignored by `Routes.create`."""
    target_addresses: Sequence[NodeAddress] | None = None
    """Addresses that the route points to; `None` if the cloud routes to instances and not to addresses."""
    blackhole: bool = False
    """Whether the target does not exist any more; such routes are deleted."""


class Instances(Protocol):
    """The machines of a cloud. Find them by `spec.providerID`, or by the name of the node if it is empty."""

    async def exists(self, node: Node) -> bool:
        """Whether the instance exists, running or not. If it does not, the node is deleted."""

    async def is_shut_down(self, node: Node) -> bool:
        """Whether the instance exists and does not run."""

    async def metadata(self, node: Node) -> InstanceMetadata | None:
        """Return the metadata of an instance; `None` to leave the node to another provider."""


class Zones(Protocol):
    """Locations, for clouds that report them separately. Not called if `InstanceMetadata` has them."""

    async def zone(self, node: Node) -> Zone:
        """Return the location of the instance of a node."""


class LoadBalancers(Protocol):
    """Load balancers for Services of the type LoadBalancer. `cluster` is the name of the cluster."""

    def name(self, cluster: str, service: Service) -> str:
        """Return the name of the load balancer in the cloud; see `default_load_balancer_name`."""

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Return the status of the load balancer; `None` if it does not exist."""

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or update the load balancer and return its status.

        Raises `RetryAfter` while it is not ready, and `ImplementedElsewhere` to leave it to another
        controller.
        """

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Replace the nodes of an existing load balancer."""

    async def ensure_deleted(self, cluster: str, service: Service) -> None:
        """Delete the load balancer and all of its parts; succeeds if it does not exist."""


class Routes(Protocol):
    """Routes between the pods of different nodes."""

    async def list(self, cluster: str) -> Sequence[Route]:
        """Return the routes of a cluster."""

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        """Create a route. `name_hint` is unique for the node, but not for the route."""

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route that `list` has returned."""


class CloudClusters(Protocol):
    """Clusters of a cloud; not used by the controllers."""

    async def list(self) -> Sequence[str]:
        """Return the names of the clusters."""

    async def address(self, cluster: str) -> str:
        """Return the host name or the address of the API server of a cluster."""


@dataclass(slots=True)
class CloudProvider:
    """A cloud: its name and the parts that it supports."""

    name: str
    instances: Instances | None = None
    zones: Zones | None = None
    load_balancers: LoadBalancers | None = None
    routes: Routes | None = None
    clusters: CloudClusters | None = None


class RetryAfter(TemporaryError):
    """The operation is not finished: call again after `delay` seconds, without exponential backoff.

    For example while a load balancer is being provisioned.
    """


class ImplementedElsewhere(Exception):
    """Another controller manages the load balancer of this service; raised by `ensure` and `update`."""


class InstanceNotFound(Exception):
    """The instance does not exist. Not for an instance that is stopped."""
