"""`InMemoryCloud`: a cloud without machines, for `kubewright up` and for tests.

    cloud = InMemoryCloud(load_balancer_range="198.51.100.0/24")
    cloud.instances.shut_down("node-0")
    cloud.load_balancers.errors.append(RetryAfter("still provisioning", delay=3))

Load balancers get addresses, which nothing listens on. Every node has an instance until a test terminates it.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kubewright.api.core.v1 import LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress, Service

from .provider import CloudProvider, InstanceMetadata, Route
from .service_fields import default_load_balancer_name, health_check_port, provider_id, source_ranges

DEFAULT_RANGE: Final = "203.0.113.0/24"
"""TEST-NET-3: a range for documentation, which is not routed."""
DEFAULT_NAME: Final = "kubewright"
INSTANCE_TYPE: Final = "simulated"
ZONE: Final = "local-a"
REGION: Final = "local"

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_VERSIONS: Final = {"IPv4": 4, "IPv6": 6}


class _Failures:
    """Errors that the next calls raise, one each."""

    def __init__(self) -> None:
        self.errors: deque[Exception] = deque()
        """Errors of the next calls."""

    def _raise_error(self) -> None:
        if self.errors:
            raise self.errors.popleft()


@dataclass(slots=True)
class Instance:
    """A machine of the in-memory cloud."""

    name: str
    provider_id: str
    instance_type: str = INSTANCE_TYPE
    zone: str = ZONE
    region: str = REGION
    addresses: list[NodeAddress] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    is_shut_down: bool = False


class InMemoryInstances(_Failures):
    """Instances by the name of their node."""

    def __init__(self, provider: str, *, for_all_nodes: bool = True) -> None:
        super().__init__()
        self.by_name: dict[str, Instance] = {}
        self._provider = provider
        self._for_all_nodes = for_all_nodes
        self._terminated: set[str] = set()

    def add(self, instance: Instance) -> None:
        """Add an instance."""
        self._terminated.discard(instance.name)
        self.by_name[instance.name] = instance

    def shut_down(self, name: str, value: bool = True) -> None:
        """Shut down the instance of a node, or start it again."""
        self._terminated.discard(name)
        instance = self.by_name.setdefault(name, Instance(name, f"{self._provider}://{name}"))
        instance.is_shut_down = value

    def terminate(self, name: str) -> None:
        """Delete the instance of a node."""
        self.by_name.pop(name, None)
        self._terminated.add(name)

    def find(self, node: Node) -> Instance | None:
        """Return the instance of a node, by its provider ID or its name."""
        wanted = provider_id(node)
        found = next((one for one in self.by_name.values() if wanted and one.provider_id == wanted), None)
        found = found or self.by_name.get(node.name)
        if found is None and self._for_all_nodes and node.name not in self._terminated:
            found = self.by_name[node.name] = self._from_node(node)
        return found

    def _from_node(self, node: Node) -> Instance:
        labels = node.metadata.labels or {}
        return Instance(
            node.name,
            provider_id(node) or f"{self._provider}://{node.name}",
            labels.get("node.kubernetes.io/instance-type", INSTANCE_TYPE),
            labels.get("topology.kubernetes.io/zone", ZONE),
            labels.get("topology.kubernetes.io/region", REGION),
            list((node.status.addresses if node.status is not None else None) or ()),
        )

    async def exists(self, node: Node) -> bool:
        """Whether the instance exists."""
        self._raise_error()
        return self.find(node) is not None

    async def is_shut_down(self, node: Node) -> bool:
        """Whether the instance is shut down."""
        self._raise_error()
        found = self.find(node)
        return found is not None and found.is_shut_down

    async def metadata(self, node: Node) -> InstanceMetadata | None:
        """Return the metadata of the instance."""
        self._raise_error()
        found = self.find(node)
        if found is None:
            return None
        return InstanceMetadata(
            provider_id=found.provider_id,
            instance_type=found.instance_type,
            addresses=found.addresses,
            zone=found.zone,
            region=found.region,
            labels=found.labels,
        )


@dataclass(slots=True)
class LoadBalancer:
    """A load balancer of the in-memory cloud."""

    name: str
    addresses: list[str]
    ports: dict[int, int | None]
    """Node ports by port."""
    nodes: list[str]
    source_ranges: list[str]
    health_check_port: int | None
    """Node port of the health check, with `externalTrafficPolicy: Local`."""

    @property
    def status(self) -> LoadBalancerStatus:
        """The status for the Service."""
        return LoadBalancerStatus(ingress=[LoadBalancerIngress(ip=ip) for ip in self.addresses])


class InMemoryLoadBalancers(_Failures):
    """Load balancers by name, with addresses from ranges."""

    def __init__(self, ranges: Sequence[str]) -> None:
        super().__init__()
        self.by_name: dict[str, LoadBalancer] = {}
        self._ranges: list[Network] = [ipaddress.ip_network(text) for text in ranges]
        self._owners: dict[IPAddress, str] = {}

    def name(self, cluster: str, service: Service) -> str:
        """Return the name of the load balancer."""
        return default_load_balancer_name(service)

    def reserve(self, service: Service) -> None:
        """Reserve the addresses in the status of a service, after a restart."""
        status = service.status.load_balancer if service.status is not None else None
        for ingress in (status.ingress if status is not None else None) or ():
            address = ipaddress.ip_address(ingress.ip) if ingress.ip else None
            if address is not None and any(address in network for network in self._ranges):
                self._owners.setdefault(address, default_load_balancer_name(service))

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Return the status of a load balancer; `None` if it does not exist."""
        self._raise_error()
        name = default_load_balancer_name(service)
        found = self.by_name.get(name)
        if found is not None:
            return found.status
        reserved = [str(address) for address, owner in self._owners.items() if owner == name]
        ingress = [LoadBalancerIngress(ip=ip) for ip in reserved]
        return LoadBalancerStatus(ingress=ingress) if ingress else None

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or update a load balancer."""
        self._raise_error()
        name, spec = default_load_balancer_name(service), service.spec
        assert spec is not None
        wanted = LoadBalancer(
            name,
            self._allocate(name, service),
            {port.port or 0: port.node_port for port in spec.ports or ()},
            sorted(node.name for node in nodes),
            source_ranges(service),
            health_check_port(service),
        )
        self.by_name[name] = wanted
        return wanted.status

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Replace the nodes of a load balancer."""
        self._raise_error()
        name = default_load_balancer_name(service)
        if name not in self.by_name:
            raise LookupError(f"load balancer {name} does not exist")
        self.by_name[name].nodes = sorted(node.name for node in nodes)

    async def ensure_deleted(self, cluster: str, service: Service) -> None:
        """Delete a load balancer and release its addresses."""
        self._raise_error()
        name = default_load_balancer_name(service)
        self.by_name.pop(name, None)
        self._release(name)

    def _release(self, name: str) -> None:
        for address in [address for address, owner in self._owners.items() if owner == name]:
            del self._owners[address]

    def _allocate(self, name: str, service: Service) -> list[str]:
        """Return an address for each IP family of the service; addresses do not change without a reason."""
        spec = service.spec
        assert spec is not None
        held = [address for address, owner in self._owners.items() if owner == name]
        families = [_VERSIONS[family] for family in spec.ip_families or ("IPv4",)]
        available = {network.version for network in self._ranges}
        chosen: list[IPAddress] = []
        if spec.load_balancer_ip:
            chosen.append(self._requested(name, spec.load_balancer_ip))
        for version in [each for each in families if each in available] or sorted(available)[:1]:
            if not any(address.version == version for address in chosen):
                kept = next((address for address in held if address.version == version), None)
                chosen.append(kept or self._free_address(version))
        self._release(name)
        self._owners.update(dict.fromkeys(chosen, name))
        return [str(address) for address in chosen]

    def _requested(self, name: str, text: str) -> IPAddress:
        address = ipaddress.ip_address(text)
        if not any(address in network for network in self._ranges):
            ranges = ", ".join(str(network) for network in self._ranges)
            raise ValueError(f"loadBalancerIP {text} is not in the load balancer range {ranges}")
        if self._owners.get(address, name) != name:
            raise ValueError(f"loadBalancerIP {text} is already in use")
        return address

    def _free_address(self, version: int) -> IPAddress:
        for address in self._addresses(version):
            if address not in self._owners:
                return address
        ranges = ", ".join(str(network) for network in self._ranges if network.version == version)
        raise ValueError(f"no free address in the load balancer range {ranges}")

    def _addresses(self, version: int) -> Iterator[IPAddress]:
        for network in self._ranges:
            if network.version == version:
                yield from network.hosts()


class InMemoryRoutes(_Failures):
    """Routes by name."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, Route] = {}

    async def list(self, cluster: str) -> Sequence[Route]:
        """Return all routes."""
        return list(self.by_name.values())

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        """Create a route."""
        self._raise_error()
        name = f"{cluster}-{name_hint}-{route.destination_cidr}"
        self.by_name[name] = replace(route, name=name)

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route."""
        self._raise_error()
        self.by_name.pop(route.name, None)


class InMemoryCloud(CloudProvider):
    """A cloud in memory with instances, load balancers and routes."""

    instances: InMemoryInstances
    load_balancers: InMemoryLoadBalancers
    routes: InMemoryRoutes

    def __init__(
        self,
        name: str = DEFAULT_NAME,
        *,
        load_balancer_range: str = DEFAULT_RANGE,
        instances_for_all_nodes: bool = True,
    ) -> None:
        """`load_balancer_range`: CIDRs of load balancers, separated by commas.

        With `instances_for_all_nodes`, a node has an instance unless it was terminated; otherwise only those
        that were added exist.
        """
        super().__init__(
            name,
            instances=InMemoryInstances(name, for_all_nodes=instances_for_all_nodes),
            load_balancers=InMemoryLoadBalancers(parse_ranges(load_balancer_range)),
            routes=InMemoryRoutes(),
        )


def parse_ranges(text: str) -> list[str]:
    """Return the CIDRs of a list separated by commas; raises `ValueError`."""
    return [str(ipaddress.ip_network(part.strip())) for part in text.split(",")]
