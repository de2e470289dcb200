"""The flags of kube-apiserver v1.36: which have an effect here, and which are ignored.

- `SUPPORTED` flags are those of options of the control plane, translated by `settings.py`.
- `SATISFIED` flags ask, with the given value, for what the server does in any case.
- All others are `IGNORED`; one warning names those that are given.

Flags that kube-apiserver does not have are errors.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kubewright.controlplane.options import ControlPlaneOptions, ShutdownOptions
from kubewright.options.kinds import INTEGER, TEXT, Kind
from kubewright.options.model import option, options_of

from .etcd_connection import EtcdClientOptions
from .flags import Flags


def _log_format(text: str) -> str:
    if text not in ("text", "json"):
        raise ValueError(f'unsupported log format "{text}"; use text or json')
    return text


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Logs: what is written to stderr."""

    verbosity: int = option(0, INTEGER, "2 for information, 4 for details.", "v")
    log_format: str = option(
        "text", Kind("string", "FORMAT", "json", _log_format), "text or json.", "logging-format"
    )

    @property
    def log_level(self) -> int:
        """The level of log lines: as with kube-apiserver, `-v=2` is that of normal operation."""
        if self.verbosity >= 4:
            return logging.DEBUG
        return logging.INFO if self.verbosity >= 2 else logging.WARNING


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ControlPlaneOptions, ShutdownOptions, LogOptions):
    """The options of a server with the flags of kube-apiserver."""


OPTIONS = tuple(
    {
        one.flag: one for cls in (ServerOptions, EtcdClientOptions) for one in options_of(cls) if one.flag
    }.values()
)
"""The options that have flags."""

_IGNORED = {
    "array": """
        tls-sni-cert-key
    """,
    "bool": """
        aggregator-reject-forwarding-redirect allow-privileged contention-profiling
        disable-http2-serving emulation-forward-compatible enable-aggregator-routing
        enable-garbage-collector enable-logs-handler log-json-split-stream log-text-split-stream
        permit-address-sharing permit-port-sharing profiling
        runtime-config-emulation-forward-compatible service-account-lookup
        shutdown-send-retry-after watch-cache
    """,
    "duration": """
        audit-webhook-batch-initial-backoff coordinated-leadership-lease-duration
        coordinated-leadership-renew-deadline coordinated-leadership-retry-period
        etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout
        etcd-readycheck-timeout kubelet-timeout livez-grace-period log-flush-frequency
        shutdown-watch-termination-grace-period storage-initialization-timeout
    """,
    "float": """
        goaway-chance
    """,
    "int": """
        apiserver-count default-watch-cache-size delete-collection-workers
        http2-max-streams-per-connection kubelet-port kubelet-read-only-port
        kubernetes-service-node-port lease-reuse-duration-seconds max-connection-bytes-per-sec
    """,
    "list": """
        admission-control cors-allowed-origins disabled-metrics emulated-version
        etcd-servers-overrides min-compatibility-version strict-transport-security-directives
        tls-curve-preferences watch-cache-sizes
    """,
    "map": """
        allow-metric-labels
    """,
    "string": """
        admission-control-config-file allow-metric-labels-manifest
        authentication-token-webhook-version authorization-policy-file
        authorization-webhook-version debug-socket-path egress-selector-config-file
        endpoint-reconciler-type external-hostname kubelet-certificate-authority
        log-json-info-buffer-size log-text-info-buffer-size peer-advertise-ip
        peer-advertise-port peer-ca-file service-account-signing-endpoint
        show-hidden-metrics-for-version storage-backend storage-media-type vmodule
    """,
}


def _by_name(groups: dict[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in groups.items() for name in names.split()}


SUPPORTED = {one.flag: one.kind.type for one in OPTIONS}
"""Names and types of the flags that are translated."""

IGNORED = _by_name(_IGNORED)
"""Names and types of the flags without effect."""

TYPES = {**SUPPORTED, **IGNORED, "help": "bool", "version": "bool"}
"""Names and types of all flags."""

ABBREVIATIONS = {"h": "help", "v": "v"}

OTHER_NAMES = {one.name: one.flag for one in OPTIONS if one.name != one.flag}
"""Flags of `kubewright up` that have another name here."""

SATISFIED: dict[str, tuple[str, ...]] = {
    "authentication-token-webhook-version": ("v1",),
    "authorization-webhook-version": ("v1",),
    "aggregator-reject-forwarding-redirect": ("true",),
    "allow-privileged": ("true",),
    "contention-profiling": ("false",),
    "disable-http2-serving": ("true",),
    "enable-garbage-collector": ("true",),
    "enable-logs-handler": ("false",),
    "endpoint-reconciler-type": ("lease",),
    "goaway-chance": ("0",),
    "kubernetes-service-node-port": ("0",),
    "profiling": ("false",),
    "service-account-lookup": ("true",),
    "storage-backend": ("etcd3",),
    "watch-cache": ("true",),
}
"""Ignored flags with the values for which no warning is needed."""


def flags_without_effect(flags: Flags) -> list[str]:
    """Return the given flags that are ignored, as `--name`."""
    return [
        f"--{name}"
        for name in flags.names()
        if name in IGNORED and flags.read(name, TEXT, "") not in SATISFIED.get(name, ())
    ]


def help_text() -> str:
    """Return the text of `--help`."""
    lines = [
        "The API server of Kubewright with the flags of kube-apiserver.",
        "",
        "Usage:",
        "  kube-apiserver [flags]",
        "",
        "Flags:",
        "",
        *(f"      --{name} {kind}".replace(" bool", "") for name, kind in sorted(SUPPORTED.items())),
        "  -h, --help",
        "      --version",
        "",
        "Flags of kube-apiserver that are accepted and ignored, with a warning:",
        "",
        *(f"      --{name} {kind}".replace(" bool", "") for name, kind in sorted(IGNORED.items())),
    ]
    return "\n".join(lines) + "\n"
