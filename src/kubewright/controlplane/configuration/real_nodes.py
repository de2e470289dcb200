"""A control plane for kubelets that join (`real_nodes`): the options that it implies, and who depends on it.

Kubelets authenticate with bootstrap tokens until they have a certificate; the node authorizer and
NodeRestriction limit them to their own objects; each node gets a part of the range of pods.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from kubewright.controlplane.options import ControlPlaneOptions, NodeOptions

OptionsT = TypeVar("OptionsT", bound=ControlPlaneOptions)

CLUSTER_CIDR = "10.244.0.0/16"
"""Range of pods, as in most network plug-ins."""
DNS_INDEX = 10
"""Number of the address of cluster DNS in the range of services, as in kubeadm."""


def with_real_nodes(options: OptionsT) -> OptionsT:
    """Return the options with those that `real_nodes` implies; without it, the same ones."""
    if not options.real_nodes:
        return options
    changes: dict[str, Any] = {"bootstrap_token_auth": True}
    if options.auth in ("rbac", ("rbac",), ["rbac"]):
        changes["auth"] = ("node", "rbac")
    if "NodeRestriction" not in options.disable_admission_plugins:
        changes["enable_admission_plugins"] = (*options.enable_admission_plugins, "NodeRestriction")
    if not options.cluster_cidr:
        changes["cluster_cidr"] = CLUSTER_CIDR
    return replace(options, **changes)


def runs_workloads(options: NodeOptions) -> bool:
    """Whether there can be nodes, simulated or real: then workload controllers and scheduler run."""
    return options.real_nodes or options.nodes not in (0, "0")


def parse_endpoint(value: str) -> tuple[str, int | None]:
    """Return host and port of `--control-plane-endpoint`; raises `ValueError`."""
    try:
        parts = urlsplit(f"//{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.netloc != value or "@" in value:
        raise ValueError(
            f'--control-plane-endpoint "{value}": expected HOST or HOST:PORT, such as 192.0.2.10:6443'
        )
    return host, port


def dns_address(service_range: str) -> str:
    """Return the cluster IP of DNS; raises `ValueError` if the range is too small."""
    network = ipaddress.ip_network(service_range)
    if network.num_addresses <= DNS_INDEX + 1:
        raise ValueError(f"--service-cluster-ip-range {service_range} has no address for cluster DNS")
    return str(network.network_address + DNS_INDEX)
