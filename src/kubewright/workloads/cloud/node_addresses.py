"""Addresses of a node: those of the cloud, restricted by the node IP that its kubelet was started with."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from kubewright.api.core.v1 import Node, NodeAddress

PROVIDED_IP_ANNOTATION: Final = "alpha.kubernetes.io/provided-node-ip"
HOST_NAME: Final = "Hostname"

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def node_addresses(node: Node, addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Return the addresses that a node should have, from those of its instance.

    If the cloud reports no host name, the node keeps its own. A node IP of the kubelet becomes the first
    address, and the only one of its type. Raises `ValueError` if the cloud does not have that IP.
    """
    found = list(addresses)
    if not any(one.type == HOST_NAME for one in found):
        current = (node.status.addresses if node.status is not None else None) or ()
        found += [one for one in current if one.type == HOST_NAME]
    return select_node_ips(node, found)


def select_node_ips(node: Node, addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Apply the annotation with the node IPs of a kubelet; raises `ValueError` if an IP does not match."""
    provided = (node.metadata.annotations or {}).get(PROVIDED_IP_ANNOTATION)
    if provided is None:
        return list(addresses)
    chosen: list[NodeAddress] = []
    for text in provided.split(","):
        ip = _parse(text)
        if ip is None:
            raise ValueError(f'failed to parse node IP "{provided}"')
        matching = [one for one in addresses if _parse(one.address or "") == ip]
        if not matching:
            raise ValueError(f"failed to get node address from cloud provider that matches ip: {ip}")
        chosen += matching
    types = {one.type for one in chosen}
    return chosen + [one for one in addresses if one.type not in types]


def addresses_differ(current: Sequence[NodeAddress] | None, wanted: Sequence[NodeAddress]) -> bool:
    """Whether the addresses of a node have to be written."""
    return [(one.type, one.address) for one in current or ()] != [(one.type, one.address) for one in wanted]


def _parse(text: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
