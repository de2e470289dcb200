"""Values and checks of options of `ControlPlane`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

DEFAULT_NODE_PORTS = range(30000, 32768)
"""Ports of services of type NodePort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """Authenticating proxy that names users in request headers (`--requestheader-...`)."""

    client_ca: bytes
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)


def parse_service_ranges(text: str) -> tuple[str, ...]:
    """Return the ranges of cluster IPs in `A` or `A,B`, of different families; raises `ValueError`."""
    networks = [ipaddress.ip_network(each.strip()) for each in text.split(",")]
    if len(networks) > 2:
        raise ValueError("at most two ranges are possible, one of each IP family")
    if len(networks) == 2 and networks[0].version == networks[1].version:
        raise ValueError("two ranges must be of different IP families")
    return tuple(map(str, networks))


def parse_port_range(text: str) -> range:
    """Return the ports of `FIRST-LAST`, `FIRST+SIZE` or one port; raises `ValueError`."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:([-+])\s*(\d+)\s*)?", text)
    if match is None:
        raise ValueError(f"{text!r} is not a port range such as 30000-32767")
    first = int(match[1])
    last = first if match[2] is None else int(match[3]) + (first if match[2] == "+" else 0)
    if last > 65535:
        raise ValueError(f"the port range cannot be greater than 65535: {text}")
    if last < first or not first:
        raise ValueError(f"{text!r}: the first port must be at least 1, and not greater than the last one")
    return range(first, last + 1)


def check_node_options(
    nodes: int | str | Path, *, run_processes: bool, kubelet_directory: str | Path | None
) -> None:
    """Raise `ValueError` if options of nodes are set without a node, or the extra `node` is not installed."""
    has_nodes = nodes not in (0, "0")
    if run_processes and not has_nodes:
        raise ValueError("containers cannot run as processes without a node; set nodes to 1 or more")
    if kubelet_directory is None:
        return
    if not has_nodes:
        raise ValueError("a kubelet directory requires a node; set nodes to 1 or more")
    if find_spec("grpc") is None:
        raise ValueError(
            "device plug-ins and CSI drivers require grpcio; install it with: pip install 'kubewright[node]'"
        )


__all__ = [
    "DEFAULT_NODE_PORTS",
    "FrontProxy",
    "check_node_options",
    "parse_port_range",
    "parse_service_ranges",
]
