"""Values of options of `ControlPlane`: how their texts are parsed, and what is checked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.kubernetes_version import KubernetesVersion, supported
from kubewright.options.kinds import LIST, Kind, choice, parse_boolean, parse_seconds
from kubewright.options.model import keyword_arguments, option

from .feature_gates import check_gates, parse_gates

if TYPE_CHECKING:
    from kubewright.controlplane.options import ControlPlaneOptions, StorageOptions
    from kubewright.storage import Storage

DEFAULT_NODE_PORTS = range(30000, 32768)
"""Ports of services of type NodePort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """Authenticating proxy that names users in request headers (`--requestheader-...`)."""

    client_ca: bytes = option(
        b"",
        Kind("string", "FILE", "ca.pem", lambda path: _read_certificates(path) if path else b""),
        "CA bundle (PEM) for client certificates of front proxies.",
        "requestheader-client-ca-file",
    )
    allowed_names: tuple[str, ...] = option(
        (),
        LIST,
        "Common names of front proxy certificates.",
        "requestheader-allowed-names",
        shown_default="all",
    )
    username_headers: tuple[str, ...] = option(
        ("X-Remote-User",),
        LIST,
        "Headers of front proxies with the user name.",
        "requestheader-username-headers",
    )
    uid_headers: tuple[str, ...] = option(
        ("X-Remote-Uid",), LIST, "Headers of front proxies with the user ID.", "requestheader-uid-headers"
    )
    group_headers: tuple[str, ...] = option(
        ("X-Remote-Group",), LIST, "Headers of front proxies with the groups.", "requestheader-group-headers"
    )
    extra_prefixes: tuple[str, ...] = option(
        ("X-Remote-Extra-",),
        LIST,
        "Prefixes of headers of front proxies with extra user fields.",
        "requestheader-extra-headers-prefix",
    )

    @classmethod
    def from_flags(cls, given: Mapping[str, Any]) -> FrontProxy | None:
        """Return the front proxy of flags by name; `None` without a certificate authority."""
        given = {name: value for name, value in given.items() if value}
        return cls(**keyword_arguments(cls, given)) if "requestheader-client-ca-file" in given else None


def _read_certificates(path: str) -> bytes:
    from kubewright.controlplane.credentials.credentials import read_certificates

    return read_certificates(Path(path))


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


def open_store(options: StorageOptions) -> Storage:
    """Return the store of the options, not opened yet; raises `ValueError` or `StorageError`."""
    from kubewright.storage import open_storage

    url = options.store
    if not isinstance(url, str):
        return url
    settings: dict[str, Any] = {}
    if options.accept_data_loss:
        if not url.startswith("sqlite:"):
            raise ValueError("--accept-data-loss requires --store sqlite:PATH")
        settings["accept_data_loss"] = True
    if options.history:
        from kubewright.controlplane.history import LONG_HISTORY

        if not url.startswith(("memory:", "sqlite:")):
            raise ValueError("--history requires --store memory: or sqlite:PATH")
        settings["history"] = LONG_HISTORY
    if not url.startswith("etcd:"):
        settings["max_request_bytes"] = options.max_request_bytes
    return open_storage(url, **settings)


def check_options(options: ControlPlaneOptions) -> None:
    """Raise `ValueError` if options contradict each other, or an extra of the package is not installed."""
    check_gates(options.feature_gates or {}, KubernetesVersion.parse(options.kubernetes_version))
    has_nodes = options.nodes not in (0, "0")
    if options.run_processes and not has_nodes:
        raise ValueError("containers cannot run as processes without a node; set nodes to 1 or more")
    if options.kubelet_directory is not None:
        if not has_nodes:
            raise ValueError("a kubelet directory requires a node; set nodes to 1 or more")
        if find_spec("grpc") is None:
            raise ValueError(
                "device plug-ins and CSI drivers require grpcio; "
                "install it with: pip install 'kubewright[node]'"
            )
    if options.cluster_cidr:
        for pods in map(ipaddress.ip_network, parse_service_ranges(options.cluster_cidr)):
            for services in map(ipaddress.ip_network, parse_service_ranges(options.service_cluster_ip_range)):
                if pods.version == services.version and pods.overlaps(services):
                    raise ValueError(f"the ranges of pods ({pods}) and of services ({services}) overlap")
    if options.dns and find_spec("dns") is None:
        raise ValueError(
            "cluster DNS requires dnspython; install it with: pip install 'kubewright[dns]', or use --no-dns"
        )
    if options.encryption_provider_config_automatic_reload and options.encryption_provider_config is None:
        raise ValueError(
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
        )
    for part in options.load_balancer_range.split(","):
        ipaddress.ip_network(part.strip())
    parse_port_range(options.service_node_port_range)
    if options.http2:
        from kubewright.apiserver.http.server import require_http2

        require_http2()
    if options.tls_cipher_suites:
        from kubewright.tls.cipher_suites import check_cipher_suites

        check_cipher_suites(tuple(options.tls_cipher_suites))


def _nodes(text: str) -> int | Path:
    if text.isdecimal():
        return int(text)
    if not Path(text).is_file():
        raise ValueError(f"{text!r}: expected a number of nodes, or an existing file")
    return Path(text)


def _check_ranges(text: str) -> str:
    try:
        parse_service_ranges(text)
    except ValueError as error:
        raise ValueError(f"{error}; expected a CIDR such as 10.0.0.0/24, or one of each IP family") from None
    return text


def _check_port_range(text: str) -> str:
    parse_port_range(text)
    return text


def _modes(names: list[str]) -> tuple[str, ...]:
    from kubewright.controlplane.access.settings import parse_modes

    if "ABAC" in names:
        raise ValueError("ABAC is not supported; use Node, RBAC or Webhook")
    return parse_modes(names)


def _kubernetes_version(text: str) -> str:
    return str(KubernetesVersion.parse(text))


def _version(text: str) -> tuple[str, bool]:
    key, _, word = text.partition("=")
    try:
        return key.strip(), parse_boolean(word.strip()) if word else True
    except ValueError:
        raise ValueError(f"{text!r}: expected KEY=true or KEY=false, as in api/beta=true") from None


def _service_url(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if not equals or "." not in name.strip(".") or not url.startswith("https://"):
        raise ValueError(
            f"{text!r}: expected SERVICE.NAMESPACE=URL, as in toys.default=https://127.0.0.1:8443"
        )
    return name, url


def _token_seconds(text: str) -> int:
    seconds = int(parse_seconds(text))
    if seconds and not 3600 <= seconds <= 1 << 32:
        raise ValueError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
    return seconds


_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
# Versions before 1.2 are never accepted.
_TLS = {
    "1.2": "1.2",
    "1.3": "1.3",
    "VersionTLS10": "1.2",
    "VersionTLS11": "1.2",
    "VersionTLS12": "1.2",
    "VersionTLS13": "1.3",
}

NODES: Final = Kind("string", "N|FILE", "2", _nodes)
SERVICE_RANGES: Final = Kind("string", "CIDR[,CIDR]", "10.1.0.0/16", _check_ranges)
NETWORKS: Final = Kind("list", "CIDR[,CIDR]", "203.0.113.0/25", _check_ranges, ",".join)
PORT_RANGE: Final = Kind("string", "FIRST-LAST", "31000-31001", _check_port_range)
MODES: Final = Kind("list", "A,B", "node,rbac", combine=_modes)
GATES: Final = Kind("list", "NAME=BOOL,...", "WatchList=false", combine=parse_gates)
KUBERNETES: Final = Kind("string", "VERSION", str(supported()[0]), _kubernetes_version)
VERSIONS: Final = Kind("map", "KEY=BOOL,...", "api/beta=true,apps/v1=false", _version, dict)
SERVICE_URLS: Final = Kind("array", "SVC.NS=URL", "toys.default=https://127.0.0.1:1", _service_url, dict)
TOKEN_SECONDS: Final = Kind("duration", "DURATION", "2h", _token_seconds)
TLS_VERSION: Final = choice("tls version", _TLS, "VersionTLS12 or VersionTLS13")
ADDRESS_TYPES: Final = choice("type", {each: each for each in _TYPES}, ", ".join(_TYPES), type="list")
