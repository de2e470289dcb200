"""Translation of the flags of kube-apiserver to the settings of a `ControlPlane`.

Flags with an effect here become options of the control plane. Other known flags are accepted, so that command
lines written for kube-apiserver work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubewright.controlplane.feature_gates import DEFAULT_GATES, parse_gates, warn_of_gates

from .etcd_connection import DEFAULT_PREFIX, EtcdClientOptions
from .flags import FlagError, Flags
from .kube_apiserver_flags import flags_without_effect

DEFAULT_CERT_DIR = "/var/run/kubernetes"
_TLS_VERSIONS = {"VersionTLS10": "1.2", "VersionTLS11": "1.2", "VersionTLS12": "1.2", "VersionTLS13": "1.3"}
"""Minimum TLS versions; versions before 1.2 are never accepted."""

_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a command line asks for."""

    etcd: EtcdClientOptions
    plane: dict[str, Any]
    """Keyword arguments of `ControlPlane`, without the storage."""
    warnings: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
    """The flags that were given, for `/flagz`."""
    log_level: int = logging.WARNING
    log_format: str = "text"
    shutdown_delay: float = 0.0
    """Seconds for which requests are served after a signal, while `/readyz` fails."""


def translate(flags: Flags) -> ServerSettings:
    """Return the settings of a command line; raises `FlagError`, or `OSError` and `ValueError` for files."""
    warnings = []
    ignored = flags_without_effect(flags)
    if ignored:
        warnings.append(f"ignored flags of kube-apiserver that have no effect here: {' '.join(ignored)}")
    try:
        gates = parse_gates(flags.strings("feature-gates"))
    except ValueError as error:
        raise FlagError(f"--feature-gates: {error}") from None
    warnings += warn_of_gates(gates)
    etcd = EtcdClientOptions(
        servers=tuple(flags.strings("etcd-servers")),
        prefix=flags.string("etcd-prefix", DEFAULT_PREFIX),
        cafile=flags.string("etcd-cafile"),
        certfile=flags.string("etcd-certfile"),
        keyfile=flags.string("etcd-keyfile"),
        compaction_interval=flags.seconds("etcd-compaction-interval", 300.0),
    )
    modes = flags.strings("authorization-mode") or ["AlwaysAllow"]
    if "ABAC" in modes:
        raise FlagError("--authorization-mode: ABAC is not supported; use Node, RBAC or Webhook")
    if "authorization-config" in flags and "authorization-mode" in flags:
        raise FlagError("--authorization-config and --authorization-mode cannot be used together")
    anonymous = flags.boolean("anonymous-auth", True)
    if anonymous and "AlwaysAllow" in modes and "authorization-config" not in flags:
        anonymous = False
        if "anonymous-auth" in flags:
            warnings.append("--anonymous-auth is not allowed with the AlwaysAllow authorizer; reset to false")
    cert_dir = Path(flags.string("cert-dir", DEFAULT_CERT_DIR) or ".")
    plane: dict[str, Any] = {
        "controllers": False,
        "nodes": 0,
        "bind": flags.string("bind-address", "0.0.0.0"),  # noqa: S104 - the default of kube-apiserver
        "port": _port(flags),
        "advertise_address": flags.string("advertise-address"),
        "auth": modes,
        "authorization_config": flags.string("authorization-config") or None,
        "authorization_webhook_config_file": flags.string("authorization-webhook-config-file") or None,
        "authentication_config": flags.string("authentication-config") or None,
        "oidc": _oidc(flags),
        "authentication_token_webhook_config_file": flags.string("authentication-token-webhook-config-file")
        or None,
        "authentication_token_webhook_cache_ttl": flags.seconds(
            "authentication-token-webhook-cache-ttl", 120.0
        ),
        "authorization_webhook_cache_ttls": (
            flags.seconds("authorization-webhook-cache-authorized-ttl", 300.0),
            flags.seconds("authorization-webhook-cache-unauthorized-ttl", 30.0),
        ),
        "anonymous": anonymous,
        "token_auth_file": flags.string("token-auth-file") or None,
        "bootstrap_token_auth": flags.boolean("enable-bootstrap-token-auth"),
        "kubelet_preferred_address_types": _address_types(flags),
        "client_ca_file": flags.string("client-ca-file") or None,
        "front_proxy": _front_proxy(flags),
        "service_cluster_ip_range": flags.string("service-cluster-ip-range", "10.0.0.0/24"),
        "service_node_port_range": _node_ports(flags),
        "service_account_issuer": flags.strings("service-account-issuer"),
        "service_account_key_files": flags.strings("service-account-key-file"),
        "service_account_signing_key_file": flags.string("service-account-signing-key-file") or None,
        "service_account_max_token_expiration": _token_expiration(flags),
        "service_account_extend_token_expiration": flags.boolean(
            "service-account-extend-token-expiration", True
        ),
        "service_account_jwks_uri": flags.string("service-account-jwks-uri"),
        "default_toleration_seconds": (
            flags.integer("default-not-ready-toleration-seconds", 300),
            flags.integer("default-unreachable-toleration-seconds", 300),
        ),
        "priority_and_fairness": flags.boolean("enable-priority-and-fairness", True),
        "feature_gates": {name: value for name, value in gates.items() if name in DEFAULT_GATES},
        "api_audiences": flags.strings("api-audiences"),
        "enable_admission_plugins": flags.strings("enable-admission-plugins"),
        "disable_admission_plugins": flags.strings("disable-admission-plugins"),
        "runtime_config": _runtime_config(flags),
        "audit": _audit(flags),
        "encryption_provider_config": flags.string("encryption-provider-config") or None,
        "encryption_provider_config_automatic_reload": flags.boolean(
            "encryption-provider-config-automatic-reload"
        ),
        "event_ttl": int(flags.seconds("event-ttl", 3600.0)) if "event-ttl" in flags else None,
        "tracing_config_file": flags.string("tracing-config-file") or None,
        "server_options": _server_options(flags),
        **_certificates(flags, cert_dir),
    }
    log_format = flags.string("logging-format", "text")
    if log_format not in ("text", "json"):
        raise FlagError(f'--logging-format: unsupported log format "{log_format}"; use text or json')
    return ServerSettings(
        etcd=etcd,
        plane=plane,
        warnings=warnings,
        flags={name: ",".join(flags.strings(name)) for name in flags.names()},
        log_level=_log_level(flags),
        log_format=log_format,
        shutdown_delay=max(0.0, flags.seconds("shutdown-delay-duration", 0.0)),
    )


def _log_level(flags: Flags) -> int:
    """Return the level of log lines: as with kube-apiserver, `-v=2` is the level for normal operation."""
    verbosity = flags.integer("v", 0)
    if verbosity >= 4:
        return logging.DEBUG
    return logging.INFO if verbosity >= 2 else logging.WARNING


def _port(flags: Flags) -> int:
    port = flags.integer("secure-port", 6443)
    if not 0 < port < 65536:
        raise FlagError(f"--secure-port {port} must be between 1 and 65535, inclusive")
    return port


def _node_ports(flags: Flags) -> str:
    from kubewright.controlplane.plane_options import parse_port_range

    text = flags.string("service-node-port-range", "30000-32767")
    try:
        parse_port_range(text)
    except ValueError as error:
        raise FlagError(f'invalid argument "{text}" for "--service-node-port-range" flag: {error}') from None
    return text


def _address_types(flags: Flags) -> list[str]:
    known = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
    types = flags.strings("kubelet-preferred-address-types")
    unknown = [each for each in types if each not in known]
    if unknown:
        raise FlagError(
            f"--kubelet-preferred-address-types: unknown type {unknown[0]!r}; use {', '.join(known)}"
        )
    return types


def _token_expiration(flags: Flags) -> int:
    seconds = int(flags.seconds("service-account-max-token-expiration", 0.0))
    if seconds and not 3600 <= seconds <= 1 << 32:
        raise FlagError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
    return seconds


def _oidc(flags: Flags) -> Any:
    if not any(name.startswith("oidc-") for name in flags.names()):
        return None
    if "authentication-config" in flags:
        raise FlagError("authentication-config file and oidc-* flags are mutually exclusive")
    issuer, client = flags.string("oidc-issuer-url"), flags.string("oidc-client-id")
    if not issuer or not client:
        raise FlagError(
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        )
    from kubewright.controlplane.jwt_authentication import OIDCOptions

    required = {}
    for pair in flags.strings("oidc-required-claim"):
        claim, equals, value = pair.partition("=")
        if not equals:
            raise FlagError(f"--oidc-required-claim: malformed pair {pair!r}, expect string=string")
        required[claim.strip()] = value.strip()
    return OIDCOptions(
        issuer_url=issuer,
        client_id=client,
        ca_file=flags.string("oidc-ca-file") or None,
        username_claim=flags.string("oidc-username-claim", "sub"),
        username_prefix=flags.string("oidc-username-prefix"),
        groups_claim=flags.string("oidc-groups-claim"),
        groups_prefix=flags.string("oidc-groups-prefix"),
        required_claims=required,
        signing_algorithms=flags.strings("oidc-signing-algs") or ("RS256",),
    )


def _certificates(flags: Flags, cert_dir: Path) -> dict[str, Any]:
    """Return the settings of serving and front proxy certificates.

    The kubeconfig of an administrator is written beside the certificates, for debugging.
    """
    found: dict[str, Any] = {}
    for prefix, settings in (
        ("tls", ("tls-cert-file", "tls-private-key-file")),
        ("proxy_client", ("proxy-client-cert-file", "proxy-client-key-file")),
        ("kubelet_client", ("kubelet-client-certificate", "kubelet-client-key")),
    ):
        given = [flags.string(name) for name in settings]
        if all(given):
            found[f"{prefix}_key_pair"] = (Path(given[0]), Path(given[1]))
        elif any(given):
            raise FlagError(f"--{settings[0]} and --{settings[1]} must be specified together")
    version = flags.string("tls-min-version")
    if version:
        if version not in _TLS_VERSIONS:
            raise FlagError(
                f"--tls-min-version: unknown tls version {version!r}; use VersionTLS12 or VersionTLS13"
            )
        found["tls_min_version"] = _TLS_VERSIONS[version]
    found["tls_cipher_suites"] = flags.strings("tls-cipher-suites")
    found["cert_dir"] = None if "tls_key_pair" in found and "cert-dir" not in flags else cert_dir
    if found["cert_dir"] is not None:
        found["kubeconfig"] = cert_dir / "kubewright.kubeconfig"
    return found


def _front_proxy(flags: Flags) -> Any:
    path = flags.string("requestheader-client-ca-file")
    if not path:
        return None
    from kubewright.controlplane.credentials import read_certificates
    from kubewright.controlplane.plane_options import FrontProxy

    given = {
        "allowed_names": flags.strings("requestheader-allowed-names"),
        "username_headers": flags.strings("requestheader-username-headers"),
        "uid_headers": flags.strings("requestheader-uid-headers"),
        "group_headers": flags.strings("requestheader-group-headers"),
        "extra_prefixes": flags.strings("requestheader-extra-headers-prefix"),
    }
    return FrontProxy(
        client_ca=read_certificates(Path(path)),
        **{name: tuple(values) for name, values in given.items() if values},
    )


def _runtime_config(flags: Flags) -> dict[str, bool]:
    found = {}
    for key, text in flags.mapping("runtime-config").items():
        value = _BOOLEANS.get(text.lower())
        if value is None:
            raise FlagError(f"--runtime-config: invalid value {key}={text}; expected true or false")
        found[key] = value
    return found


def _audit(flags: Flags) -> Any:
    if not any(name.startswith("audit-") for name in flags.names()):
        return None
    from kubewright.apiserver.audit.flags import FLAGS
    from kubewright.apiserver.audit.options import AuditOptions

    given: dict[str, Any] = {}
    for flag in FLAGS:
        if flag.name in flags:
            readers: dict[str, Callable[[str, Any], Any]] = {
                "int": flags.integer,
                "float": flags.number,
                "bool": flags.boolean,
                "duration": flags.seconds,
                "string": flags.string,
            }
            given[flag.name] = readers[flag.kind.type](flag.name, flag.default)
    return AuditOptions.from_flags(given)


def _server_options(flags: Flags) -> dict[str, Any]:
    timeout = flags.integer("min-request-timeout", 1800)
    return {
        "request_timeout": flags.seconds("request-timeout", 60.0),
        "max_in_flight": flags.integer("max-requests-inflight", 400),
        "max_mutating_in_flight": flags.integer("max-mutating-requests-inflight", 200),
        "watch_timeout": (timeout, 2 * timeout),
        "compaction_interval": flags.seconds("etcd-compaction-interval", 300.0),
    }
