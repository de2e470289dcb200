"""Translation of the flags of kube-apiserver to the options of a `ControlPlane`.

Flags with an effect here are those of the model of options; only their defaults differ. Other known flags are
accepted, so that command lines written for kube-apiserver work.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.controlplane.configuration.feature_gates import check_gates, warn_of_gates
from kubewright.options.kinds import INTEGER, LIST
from kubewright.options.model import keyword_arguments

from .etcd_connection import EtcdClientOptions
from .executables import VERSION_VARIABLE
from .flags import FlagError, Flags
from .kube_apiserver_flags import OPTIONS, ServerOptions, flags_without_effect

DEFAULTS: dict[str, Any] = {
    "bind": "0.0.0.0",  # noqa: S104 - the default of kube-apiserver
    "port": 6443,
    "auth": ("always-allow",),
    "controllers": False,
    "cert_dir": Path("/var/run/kubernetes"),
}
"""What differs from the defaults of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a command line asks for."""

    etcd: EtcdClientOptions
    options: ServerOptions
    """Without the storage."""
    warnings: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
    """The flags that were given, for `/flagz`."""


def translate(flags: Flags) -> ServerSettings:
    """Return the settings of a command line; raises `FlagError`, or `OSError` and `ValueError` for files."""
    port = flags.read("secure-port", INTEGER, 6443)
    if not 0 < port < 65536:
        raise FlagError(f"--secure-port {port} must be between 1 and 65535, inclusive")
    values = {}
    for one in OPTIONS:
        try:
            if one.flag in flags:
                values[one.name] = flags.read(one.flag, one.kind, one.default)
        except ValueError as error:
            raise FlagError(f"--{one.flag}: {error}") from None
    given = keyword_arguments(ServerOptions, values)
    version = selected_version()
    given["kubernetes_version"] = str(version)
    gates = given.get("feature_gates") or {}
    try:
        check_gates(gates, version)
    except ValueError as error:
        raise FlagError(f"--feature-gates: {error}") from None
    warnings = [*_warn_of_flags(flags), *warn_of_gates(gates, str(version))]
    if "authorization-config" in flags and "authorization-mode" in flags:
        raise FlagError("--authorization-config and --authorization-mode cannot be used together")
    if given.get("authentication_config") and "oidc" in given:
        raise FlagError("authentication-config file and oidc-* flags are mutually exclusive")
    plane = {**DEFAULTS, **given}
    if "always-allow" in plane["auth"] and not plane.get("authorization_config"):
        if given.get("anonymous"):
            warnings.append("--anonymous-auth is not allowed with the AlwaysAllow authorizer; reset to false")
        plane["anonymous"] = False
    if plane.get("tls_key_pair") is not None and "cert-dir" not in flags:
        plane["cert_dir"] = None
    else:
        # The kubeconfig of an administrator is beside the certificates, for debugging.
        plane["cert_dir"] = directory = plane["cert_dir"] or Path()
        plane["kubeconfig"] = directory / "kubewright.kubeconfig"
    plane["shutdown_delay_duration"] = max(0.0, plane.get("shutdown_delay_duration", 0.0))
    return ServerSettings(
        etcd=EtcdClientOptions(**keyword_arguments(EtcdClientOptions, values)),
        options=ServerOptions(**plane),
        warnings=warnings,
        flags={name: ",".join(flags.read(name, LIST, ())) for name in flags.names()},
    )


def selected_version() -> KubernetesVersion:
    """Return the version of Kubernetes of the environment; raises `ValueError`."""
    text = os.environ.get(VERSION_VARIABLE, "")
    try:
        return KubernetesVersion.parse(text)
    except ValueError as error:
        raise ValueError(f"{VERSION_VARIABLE}: {error}") from None


def _warn_of_flags(flags: Flags) -> list[str]:
    ignored = flags_without_effect(flags)
    return (
        [f"ignored flags of kube-apiserver that have no effect here: {' '.join(ignored)}"] if ignored else []
    )
