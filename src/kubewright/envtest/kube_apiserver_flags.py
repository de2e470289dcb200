"""The flags of kube-apiserver v1.36: which have an effect here, and which are ignored.

- `SUPPORTED` flags are translated to settings of the control plane (`settings.py`).
- `SATISFIED` flags ask, with the given value, for what the server does in any case.
- All others are `IGNORED`; one warning names those that are given.

Flags that kube-apiserver does not have are errors.
"""

from __future__ import annotations

from .flags import Flags

_SUPPORTED = {
    "array": """
        oidc-required-claim service-account-issuer service-account-key-file
    """,
    "bool": """
        anonymous-auth audit-log-batch-throttle-enable audit-log-compress
        audit-log-truncate-enabled audit-webhook-batch-throttle-enable
        audit-webhook-truncate-enabled enable-bootstrap-token-auth enable-priority-and-fairness
        encryption-provider-config-automatic-reload service-account-extend-token-expiration
    """,
    "duration": """
        audit-log-batch-max-wait audit-webhook-batch-max-wait audit-webhook-initial-backoff
        authentication-token-webhook-cache-ttl authorization-webhook-cache-authorized-ttl
        authorization-webhook-cache-unauthorized-ttl etcd-compaction-interval event-ttl
        request-timeout service-account-max-token-expiration shutdown-delay-duration
    """,
    "float": """
        audit-log-batch-throttle-qps audit-webhook-batch-throttle-qps
    """,
    "int": """
        audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-throttle-burst
        audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-truncate-max-batch-size
        audit-log-truncate-max-event-size audit-webhook-batch-buffer-size
        audit-webhook-batch-max-size audit-webhook-batch-throttle-burst
        audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size
        default-not-ready-toleration-seconds default-unreachable-toleration-seconds
        max-mutating-requests-inflight max-requests-inflight min-request-timeout secure-port v
    """,
    "list": """
        api-audiences authorization-mode disable-admission-plugins enable-admission-plugins
        etcd-servers feature-gates kubelet-preferred-address-types oidc-signing-algs
        requestheader-allowed-names requestheader-extra-headers-prefix
        requestheader-group-headers requestheader-uid-headers requestheader-username-headers
        tls-cipher-suites
    """,
    "map": """
        runtime-config
    """,
    "string": """
        advertise-address audit-log-format audit-log-mode audit-log-path audit-log-version
        audit-policy-file audit-webhook-config-file audit-webhook-mode audit-webhook-version
        authentication-config authentication-token-webhook-config-file authorization-config
        authorization-webhook-config-file bind-address cert-dir client-ca-file
        encryption-provider-config etcd-cafile etcd-certfile etcd-keyfile etcd-prefix
        kubelet-client-certificate kubelet-client-key logging-format oidc-ca-file oidc-client-id
        oidc-groups-claim oidc-groups-prefix oidc-issuer-url oidc-username-claim
        oidc-username-prefix proxy-client-cert-file proxy-client-key-file
        requestheader-client-ca-file service-account-jwks-uri service-account-signing-key-file
        service-cluster-ip-range service-node-port-range tls-cert-file tls-min-version
        tls-private-key-file token-auth-file tracing-config-file
    """,
}

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


SUPPORTED = _by_name(_SUPPORTED)
"""Names and types of the flags that are translated."""

IGNORED = _by_name(_IGNORED)
"""Names and types of the flags without effect."""

TYPES = {**SUPPORTED, **IGNORED, "help": "bool", "version": "bool"}
"""Names and types of all flags."""

ABBREVIATIONS = {"h": "help", "v": "v"}

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
        if name in IGNORED and flags.string(name) not in SATISFIED.get(name, ())
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
