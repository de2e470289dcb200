"""What a simulated kubelet knows of its node: addresses, images, and the resources that pods use."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kubewright.api.encoding.codec import from_plain
from kubewright.workloads.nodes.objects import Object, amount_of


class Rejection(NamedTuple):
    """Why a kubelet does not run a pod."""

    reason: str
    message: str


class HostPort(NamedTuple):
    """A port of the node that a container uses."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether two containers cannot use both ports on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or _ANY in (self.address, other.address)


_ANY = "0.0.0.0"  # noqa: S104


def host_ports(spec: Object) -> frozenset[HostPort]:
    """Return the ports of the node that a pod uses."""
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return frozenset(
        HostPort(port.get("hostIP") or _ANY, port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


MAX_PULLED_IMAGES: Final = 256
"""Images that a node has pulled; of more, those that were not used for the longest time are deleted."""
MAX_ADDRESSES: Final = 1 << 16
"""Addresses of a node that are used; the network of a node with IPv6 has many more."""


class AddressPool:
    """Addresses of the pods of one node. A released address is reused after all others were used."""

    def __init__(self, cidr: str) -> None:
        network = ipaddress.ip_network(cidr, strict=False)
        self._network = network
        self._first = int(network.network_address)
        # The first address is the network, the second the gateway.
        self._next = 2
        self._end = min(network.num_addresses - (1 if network.version == 4 else 0), MAX_ADDRESSES)
        self._released: deque[int] = deque()
        self._used: set[int] = set()

    def allocate(self) -> str:
        """Return an unused address; the pool wraps around when all are in use."""
        while self._next < self._end:
            number, self._next = self._next, self._next + 1
            if number not in self._used:
                break
        else:
            number = 2
            while self._released:
                number = self._released.popleft()
                if number not in self._used:
                    break
        self._used.add(number)
        return str(ipaddress.ip_address(self._first + number))

    def reserve(self, address: str) -> None:
        """Mark an address as used, such as that of a pod that existed before."""
        number = self._number(address)
        if number is not None:
            self._used.add(number)

    def release(self, address: str) -> None:
        """Make an address available again."""
        number = self._number(address)
        if number is not None and number in self._used:
            self._used.discard(number)
            self._released.append(number)

    def _number(self, address: str) -> int | None:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return None
        return int(found) - self._first if found in self._network else None


class NodeState:
    """One simulated node."""

    def __init__(self, name: str, node: Object) -> None:
        self.name = name
        self.failed = False
        """Whether the kubelet has stopped: it does not renew its Lease and does not act on pods."""
        self.pressure: frozenset[str] = frozenset()
        self.images: set[str] = set()
        """Images of the node status."""
        self._pulled: dict[str, None] = {}
        self.pods: set[str] = set()
        """The uids of the pods on this node that are not finished."""
        self.used: dict[str, int] = {}
        self.host_ports: dict[str, frozenset[HostPort]] = {}
        """The ports of the node that pods use, by uid."""
        self.deferred: dict[str, Callable[[], None]] = {}
        """Functions by pod uid to call when another pod releases its resources."""
        self.uid = ""
        self.internal_ip = ""
        self.labels: dict[str, str] = {}
        self.taints: list[Object] = []
        self.allocatable: dict[str, int] = {}
        self.conditions: dict[str, Object] = {}
        self.cidr = ""
        self.pool: AddressPool | None = None
        self.update(node)

    def update(self, node: Object) -> None:
        """Store a newer version of the Node object."""
        metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
        self.uid = str(metadata.get("uid") or "")
        self.labels = metadata.get("labels") or {}
        self.taints = spec.get("taints") or []
        self.allocatable = {
            name: amount_of(name, text) for name, text in (status.get("allocatable") or {}).items()
        }
        self.conditions = {one.get("type") or "": one for one in status.get("conditions") or ()}
        for address in status.get("addresses") or ():
            if address.get("type") == "InternalIP":
                self.internal_ip = str(address.get("address") or "")
        self.images.update(name for image in status.get("images") or () for name in image.get("names") or ())
        cidr = str(spec.get("podCIDR") or "")
        if cidr and cidr != self.cidr:
            self.cidr, self.pool = cidr, AddressPool(cidr)

    def has_image(self, image: str) -> bool:
        """Whether an image is on the node."""
        return image in self.images or image in self._pulled

    def pull(self, image: str) -> bool:
        """Pull an image; return whether it was on the node already."""
        if image in self.images:
            return True
        existed = image in self._pulled
        self._pulled.pop(image, None)
        self._pulled[image] = None
        if len(self._pulled) > MAX_PULLED_IMAGES:
            del self._pulled[next(iter(self._pulled))]
        return existed

    def allocate_address(self) -> str:
        """Return an address for a pod."""
        return self.pool.allocate() if self.pool is not None else self.internal_ip

    def admit(self, pod: Object, requests: Mapping[str, int]) -> Rejection | None:
        """Check a new pod as a kubelet does: affinity, NoExecute taints, ports of the node and resources."""
        # Not needed before the first pod, and the types of the core group are many.
        from kubewright.api.core.v1 import Pod, PodSpec, Taint
        from kubewright.workloads.scheduler.state.node_selectors import RequiredNodeAffinity, tolerates_all

        spec = pod.get("spec") or {}
        typed = from_plain(spec, PodSpec)
        if not RequiredNodeAffinity(Pod(spec=typed)).matches(self.labels, self.name):
            return Rejection(
                "NodeAffinity",
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            )
        taints = [taint for taint in self.taints if taint.get("effect") == "NoExecute"]
        if not tolerates_all(typed.tolerations, from_plain(taints, list[Taint])):
            return Rejection(
                "TaintToleration",
                "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
            )
        wanted = host_ports(spec)
        if wanted and any(
            mine.conflicts(other) for used in self.host_ports.values() for other in used for mine in wanted
        ):
            return Rejection(
                "NodePorts",
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            )
        return self.lacking(requests)

    def lacking(self, requests: Mapping[str, int], *, pods: int = 1) -> Rejection | None:
        """Return the rejection for the first resource of which the node does not have enough."""
        limit = self.allocatable.get("pods")
        if pods and limit is not None and len(self.pods) + pods > limit:
            return _insufficient("pods", pods, len(self.pods), limit)
        for name, amount in requests.items():
            limit = self.allocatable.get(name)
            if limit is None and "/" not in name and name not in ("cpu", "memory", "ephemeral-storage"):
                continue
            if (
                amount
                and self.used.get(name, 0) + amount > (limit or 0)
                and (limit is not None or "/" in name)
            ):
                return _insufficient(name, amount, self.used.get(name, 0), limit or 0)
        return None

    def reserve(self, uid: str, requests: Mapping[str, int]) -> None:
        """Count the resources of an admitted pod."""
        self.pods.add(uid)
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def release(self, uid: str, requests: Mapping[str, int]) -> None:
        """Stop counting the resources of a pod that has finished."""
        if uid in self.pods:
            self.pods.discard(uid)
            for name, amount in requests.items():
                self.used[name] = self.used.get(name, 0) - amount
            for retry in list(self.deferred.values()):
                retry()


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}",
    )


def pod_requests(spec: Object) -> dict[str, int]:
    """Return the resources that a pod requests: the larger of init containers and containers together."""
    from kubewright.api.core.v1 import Pod, PodSpec
    from kubewright.workloads.scheduler.state.resources import pod_amounts

    return pod_amounts(Pod(spec=from_plain(spec, PodSpec)))
