"""The machine of a control plane as its node (`kubewright.node.machine`)."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubewright.controlplane.configuration.real_nodes import dns_address
from kubewright.node.machine.local_node import LocalNode, NodeError, NodeSettings

if TYPE_CHECKING:
    from kubewright.controlplane.plane import ControlPlane
    from kubewright.node.machine.programs import Programs

STATE: Final = Path("/var/lib/kubewright")
"""Directory of the nodes of this machine."""


def default_node_name() -> str:
    """Return the name that kubelets use: the host name in lower case."""
    return socket.gethostname().lower()


def node_directory(name: str = "") -> Path:
    """Return the default directory of a node of this machine."""
    return STATE / (name or default_node_name())


def create_local_node(
    plane: ControlPlane,
    programs: Programs,
    *,
    name: str = "",
    directory: Path | None = None,
    pause_image: str = "",
) -> LocalNode:
    """Return a node on this machine, not started, for a running control plane. Raises `NodeError`."""
    if os.geteuid() != 0:
        raise NodeError("a kubelet requires root: run this command as root, or use simulated nodes")
    address = plane.advertised_address
    if ipaddress.ip_address(address).is_loopback:
        raise NodeError(
            f"pods cannot reach the control plane on {address}; "
            "set --advertise-address to an address of this machine"
        )
    name = name or default_node_name()
    settings = NodeSettings(
        name=name,
        address=address,
        server=plane.advertised_url,
        ca=plane.ca,
        cluster_cidr=plane.options.cluster_cidr,
        dns=dns_address(plane.service_ranges[0]),
        domain=plane.options.cluster_domain,
        pause_image=pause_image,
    )
    return LocalNode(
        programs,
        settings,
        directory=directory or node_directory(name),
        issue=lambda user, groups: plane.authority.issue(user, groups=groups),
    )
