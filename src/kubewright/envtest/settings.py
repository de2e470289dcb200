"""Translation of the flags of kube-apiserver to the settings of a `ControlPlane`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .etcd_connection import DEFAULT_PREFIX, EtcdClientOptions
from .feature_gates import gates_without_effect
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


def translate(flags: Flags) -> ServerSettings:
    """Return the settings of a command line; raises `FlagError`, or `OSError` and `ValueError` for files."""
    warnings = []
    ignored = flags_without_effect(flags)
    if ignored:
        warnings.append(f"ignored flags of kube-apiserver that have no effect here: {' '.join(ignored)}")
    gates = gates_without_effect(flags.strings("feature-gates"))
    if gates:
        warnings.append(f"ignored feature gates that have no effect here: {' '.join(gates)}")
    etcd = EtcdClientOptions(
        servers=tuple(flags.strings("etcd-servers")),
        prefix=flags.string("etcd-prefix", DEFAULT_PREFIX),
        cafile=flags.string("etcd-cafile"),
        certfile=flags.string("etcd-certfile"),
        keyfile=flags.string("etcd-keyfile"),
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
        "authentication_token_webhook_config_file": flags.string("authentication-token-webhook-config-file")
        or None,
        "anonymous": anonymous,
        "token_auth_file": flags.string("token-auth-file") or None,
        "client_ca_file": flags.string("client-ca-file") or None,
        "front_proxy": _front_proxy(flags),
        "service_cluster_ip_range": flags.string("service-cluster-ip-range", "10.0.0.0/24"),
        "service_account_issuer": flags.strings("service-account-issuer"),
        "service_account_key_files": flags.strings("service-account-key-file"),
        "service_account_signing_key_file": flags.string("service-account-signing-key-file") or None,
        "api_audiences": flags.strings("api-audiences"),
        "enable_admission_plugins": flags.strings("enable-admission-plugins"),
        "disable_admission_plugins": flags.strings("disable-admission-plugins"),
        "runtime_config": _runtime_config(flags),
        "audit": _audit(flags),
        "encryption_provider_config": flags.string("encryption-provider-config") or None,
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


def _certificates(flags: Flags, cert_dir: Path) -> dict[str, Any]:
    """Return the settings of serving and front proxy certificates.

    The kubeconfig of an administrator is written beside the certificates, for debugging.
    """
    found: dict[str, Any] = {}
    for prefix, settings in (
        ("tls", ("tls-cert-file", "tls-private-key-file")),
        ("proxy_client", ("proxy-client-cert-file", "proxy-client-key-file")),
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
            given[flag.name] = readers[flag.type](flag.name, flag.default)
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
