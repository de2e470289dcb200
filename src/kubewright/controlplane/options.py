"""The options of a control plane, one class for each concern.

The first word of a class docstring is the heading in the help of `kubewright up` and in `docs/options.md`.
Only `ControlPlaneOptions` is compared and printed, so only it has the methods, which cost time at the start.
Functions that need the options of one concern take its class: a `ControlPlaneOptions` is an instance of each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kubewright.api.values.times import monotonic_time
from kubewright.apiserver.audit.flags import FLAGS
from kubewright.options.kinds import (
    ARRAY,
    BOOLEAN,
    DIRECTORY,
    FILE,
    FILES,
    INTEGER,
    LIST,
    NEW_FILE,
    PORT,
    SECONDS,
    TEXT,
    WHOLE_SECONDS,
    integer,
)
from kubewright.options.model import SAME, Option, combined, nested, option, options_of, part

from .configuration import plane_options as kinds
from .configuration.plane_options import FrontProxy
from .jwt_authentication.oidc_options import OIDCOptions

if TYPE_CHECKING:
    from kubewright.apiserver.audit import AuditOptions
    from kubewright.storage import Storage

    from .webhooks import WebhookClient

FilePath = str | Path
T = TypeVar("T")
KeyPair = tuple[FilePath, FilePath]
"""Files (PEM) of a certificate and its key."""


def _file(help: str) -> FilePath | None:
    return option(None, FILE, help, SAME)


def _key_pair(*parts: Option) -> KeyPair | None:
    def build(given: Mapping[str, Any]) -> Any:
        values = tuple(given.get(each.name) for each in parts)
        if any(values) and not all(values):
            names = " and ".join(f"--{each.name}" for each in parts)
            raise ValueError(f"{names} must be specified together")
        return values if any(values) else None

    return combined(None, build, parts)


def _tuple(default: T, *parts: Option) -> T:
    def build(given: Mapping[str, Any]) -> Any:
        return tuple(given.get(each.name, each.default) for each in parts)

    return combined(default, build, parts)


def _audit(given: Mapping[str, Any]) -> AuditOptions | None:
    from kubewright.apiserver.audit.options import AuditOptions

    return AuditOptions.from_flags(given)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServingOptions:
    """Serving: address, certificate and TLS of the server."""

    bind: str = option("127.0.0.1", TEXT, "Address to listen on.", "bind-address", name="bind")
    port: int | None = option(
        0,
        PORT,
        "Port to listen on.",
        "secure-port",
        name="port",
        shown_default="a free port",
    )
    http2: bool = option(False, BOOLEAN, "Let clients use HTTP/2; requires the extra kubewright[http2].")
    advertise_address: str = option(
        "",
        TEXT,
        "IP address in the endpoints of the service kubernetes; by default that of --bind, or the machine's "
        "if that is any address.",
        SAME,
        is_rare=True,
    )
    kubeconfig: FilePath | None = option(
        None,
        NEW_FILE,
        "Administrator kubeconfig to write.",
        shown_default="./kubeconfig, or next to the SQLite file",
    )
    hosts: Sequence[str] = option(
        (),
        ARRAY,
        "Additional host name or IP address in the serving certificate; can be repeated.",
        name="host",
    )
    cert_dir: FilePath | None = option(None, DIRECTORY, "Directory of the certificates.", SAME)
    tls_key_pair: KeyPair | None = _key_pair(
        part("tls-cert-file", FILE, "Serving certificate (PEM), with its chain.", is_rare=False),
        part("tls-private-key-file", FILE, "Key (PEM) of --tls-cert-file.", is_rare=False),
    )
    tls_min_version: Literal["1.2", "1.3"] = option(
        "1.2", kinds.TLS_VERSION, "Minimum TLS version of clients.", SAME, shown_default="VersionTLS12"
    )
    tls_cipher_suites: Sequence[str] = option((), LIST, "Cipher suites of TLS 1.2.", SAME, is_rare=True)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StorageOptions:
    """Storage: where objects are stored, and how they are encrypted."""

    store: str | Storage = option(
        "memory:", TEXT, "Storage: memory:, sqlite:PATH, etcd://HOST:PORT or postgresql://HOST/DATABASE."
    )
    max_request_bytes: int = option(
        1_572_864, integer(1024), "Size limit of a stored object; etcd has its own."
    )
    accept_data_loss: bool = option(
        False,
        BOOLEAN,
        "Start with the intact part of a damaged SQLite store; the damaged file is renamed to PATH.damaged.",
    )
    compaction_interval: float = option(
        300.0,
        SECONDS,
        "Interval at which old revisions are removed from the store; 0 for never.",
        "etcd-compaction-interval",
        is_rare=True,
    )
    history: bool = option(
        False,
        BOOLEAN,
        "Keep the changes of the last 24 hours (at most 256 MiB), for kubewright rewind and kubewright diff.",
    )
    encryption_provider_config: FilePath | None = _file(
        "EncryptionConfiguration file: which resources are encrypted in storage, and with which keys."
    )
    encryption_provider_config_automatic_reload: bool = option(
        False, BOOLEAN, "Load the encryption configuration again when the file changes.", SAME
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class APIOptions:
    """API: which versions and features are served, and the limits of requests."""

    kubernetes_version: str = option(
        "",
        kinds.KUBERNETES,
        "Version of Kubernetes whose API is served: kinds, fields, features, roles.",
        shown_default="the newest",
    )
    runtime_config: Mapping[str, bool] | None = option(
        None, kinds.VERSIONS, "Built-in API versions to serve, as in api/beta=true,apps/v1=false.", SAME
    )
    feature_gates: Mapping[str, bool] | None = option(
        None, kinds.GATES, "Features to enable or disable, with the names of kube-apiserver.", SAME
    )
    event_ttl: int | None = option(
        None, WHOLE_SECONDS, "Age at which events are deleted.", SAME, shown_default="1h"
    )
    request_timeout: float = option(
        60.0, SECONDS, "Time limit of requests other than watches.", SAME, is_rare=True
    )
    min_request_timeout: int = option(
        1800,
        INTEGER,
        "Seconds after which the server ends watches, at the earliest; at the latest after twice the time.",
        SAME,
        is_rare=True,
    )
    max_requests_inflight: int = option(
        400, INTEGER, "Maximum number of read requests in one moment.", SAME, is_rare=True
    )
    max_mutating_requests_inflight: int = option(
        200, INTEGER, "Maximum number of write requests in one moment.", SAME, is_rare=True
    )
    priority_and_fairness: bool = option(
        True,
        BOOLEAN,
        "Whether FlowSchemas and priority levels apply; else only the limits of requests in flight.",
        "enable-priority-and-fairness",
        is_rare=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuthenticationOptions:
    """Authentication: certificates, tokens and proxies that identify users."""

    anonymous: bool = option(
        True, BOOLEAN, "Whether to allow anonymous requests (system:anonymous).", "anonymous-auth"
    )
    client_ca_file: FilePath | None = _file("CA bundle (PEM) for client certificates.")
    token_auth_file: FilePath | None = _file('File with lines token,user,uid,"group1,group2".')
    bootstrap_token_auth: bool = option(
        False, BOOLEAN, "Accept bootstrap tokens, as of kubeadm join.", "enable-bootstrap-token-auth"
    )
    authentication_config: FilePath | None = _file(
        "AuthenticationConfiguration file: JSON web tokens of other issuers, and anonymous requests."
    )
    authentication_token_webhook_config_file: FilePath | None = _file(
        "Kubeconfig with the URL of a webhook that authenticates tokens."
    )
    authentication_token_webhook_cache_ttl: float = option(
        120.0, SECONDS, "Time for which the webhook is not asked again.", SAME, is_rare=True
    )
    oidc: OIDCOptions | None = nested(OIDCOptions)
    front_proxy: FrontProxy | None = combined(None, FrontProxy.from_flags, options_of(FrontProxy))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServiceAccountOptions:
    """Service accounts: the tokens that the server issues."""

    service_account_issuer: str | Sequence[str] = option(
        "",
        ARRAY,
        "Issuer of service account tokens; further ones are accepted, too.",
        SAME,
        shown_default="https://kubernetes.default.svc",
    )
    service_account_key_files: Sequence[FilePath] = option(
        (),
        FILES,
        "Key file (PEM) to verify service account tokens; can be repeated.",
        "service-account-key-file",
    )
    service_account_signing_key_file: FilePath | None = _file(
        "Key file (PEM) to sign service account tokens."
    )
    service_account_max_token_expiration: int = option(
        0, kinds.TOKEN_SECONDS, "Maximum lifetime of tokens.", SAME, is_rare=True, shown_default="no limit"
    )
    service_account_extend_token_expiration: bool = option(
        True,
        BOOLEAN,
        "Whether the tokens of pods are valid for a year, as long as clients do not read new ones.",
        SAME,
        is_rare=True,
    )
    service_account_jwks_uri: str = option(
        "", TEXT, "URL of the public keys in the discovery document.", SAME, is_rare=True
    )
    api_audiences: Sequence[str] = option(
        (), LIST, "Audiences of service account tokens.", SAME, shown_default="the issuer"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuthorizationOptions:
    """Authorization: who is allowed to do what."""

    auth: str | Iterable[str] = option(
        "rbac",
        kinds.MODES,
        "Authorization modes in order: node, rbac, webhook, always-allow, always-deny.",
        "authorization-mode",
        name="auth",
    )
    authorization_config: FilePath | None = _file(
        "AuthorizationConfiguration file: authorizers with webhooks; replaces --auth."
    )
    authorization_webhook_config_file: FilePath | None = _file(
        "Kubeconfig with the URL of the authorization webhook, for --auth webhook."
    )
    authorization_webhook_cache_ttls: tuple[float, float] = _tuple(
        (300.0, 30.0),
        part(
            "authorization-webhook-cache-authorized-ttl",
            SECONDS,
            "Time for which a permission is used.",
            300.0,
        ),
        part(
            "authorization-webhook-cache-unauthorized-ttl", SECONDS, "Time for which a denial is used.", 30.0
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdmissionOptions:
    """Admission: plug-ins, webhooks and aggregated API servers."""

    disable_admission_plugins: Iterable[str] = option((), LIST, "Admission plugins to disable.", SAME)
    enable_admission_plugins: Iterable[str] = option(
        (), LIST, "Admission plugins to enable in addition to the defaults.", SAME
    )
    default_toleration_seconds: tuple[int, int] = _tuple(
        (300, 300),
        part(
            "default-not-ready-toleration-seconds",
            INTEGER,
            "Seconds for which pods tolerate a node that is not ready.",
            300,
        ),
        part(
            "default-unreachable-toleration-seconds",
            INTEGER,
            "Seconds for which pods tolerate a node that is unreachable.",
            300,
        ),
    )
    webhook_resolve: Mapping[str, str] | None = option(
        None, kinds.SERVICE_URLS, "URL of a Service that webhooks or APIServices refer to; can be repeated."
    )
    proxy_client_key_pair: KeyPair | None = _key_pair(
        part("proxy-client-cert-file", FILE, "Client certificate (PEM) for aggregated API servers."),
        part("proxy-client-key-file", FILE, "Key (PEM) of --proxy-client-cert-file."),
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServiceNetworkOptions:
    """Service network: addresses and ports of services."""

    service_cluster_ip_range: str = option(
        "10.0.0.0/24",
        kinds.SERVICE_RANGES,
        "CIDR of cluster IPs; for dual-stack services one of each IP family, as A,B.",
        SAME,
    )
    service_node_port_range: str = option(
        "30000-32767", kinds.PORT_RANGE, "Ports of services of type NodePort.", SAME
    )
    load_balancer_range: str = option(
        "203.0.113.0/24",
        kinds.NETWORKS,
        "Addresses of LoadBalancer services, with nodes; nothing listens on them.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NodeOptions:
    """Controllers and nodes: what runs beside the API server."""

    controllers: bool = option(True, BOOLEAN, "Whether to run the controllers of the control plane.")
    disable_controllers: Iterable[str] = option(
        (), LIST, "Controllers to disable, with the names of kube-controller-manager; * disables all."
    )
    lease_duration: float = option(
        15.0,
        SECONDS,
        "Time after which another replica continues the controllers of one that was killed.",
        is_rare=True,
    )
    nodes: int | FilePath = option(
        0,
        kinds.NODES,
        "Simulated nodes: their number, or a YAML file. With 0, as in envtest, no pod and no "
        "workload controller runs, unless there are --real-nodes.",
        shown_default="1, or 0 with --no-controllers or --real-nodes",
    )
    real_nodes: bool = option(
        False,
        BOOLEAN,
        "Run controllers and scheduler for kubelets that join: bootstrap tokens, node authorizer, "
        "NodeRestriction, pod CIDRs, objects for kubeadm join, DNS. Simulated nodes only with --nodes.",
    )
    cluster_cidr: str = option(
        "",
        kinds.SERVICE_RANGES,
        "CIDR of pods, of which each node gets a part; for dual-stack one of each IP family, as A,B.",
        shown_default="10.244.0.0/16 with --real-nodes",
    )
    control_plane_endpoint: str = option(
        "",
        TEXT,
        "Address of the load balancer of several replicas, HOST or HOST:PORT: what machines join. It is in "
        "the certificate.",
        shown_default="the advertised address",
        is_rare=True,
    )
    cluster_domain: str = option("cluster.local", TEXT, "Domain of cluster DNS.", is_rare=True)
    dns: bool = option(
        False,
        BOOLEAN,
        "Serve cluster DNS, as Service kube-dns; requires the extra kubewright[dns]. Other servers, such as "
        "CoreDNS, need --no-dns.",
        shown_default="on with --real-nodes",
    )
    run_processes: bool = option(
        False,
        BOOLEAN,
        "Run the commands of containers as processes of this machine, with the rights of this user.",
    )
    kubelet_directory: FilePath | None = option(
        None,
        DIRECTORY,
        "Directory in which the kubelet of each simulated node listens for device plug-ins and CSI drivers, "
        "in DIR/NODE; requires the extra kubewright[node].",
        name="kubelet-dir",
    )
    kubelet_client_key_pair: KeyPair | None = _key_pair(
        part("kubelet-client-certificate", FILE, "Client certificate (PEM) for kubelets."),
        part("kubelet-client-key", FILE, "Key (PEM) of --kubelet-client-certificate."),
    )
    kubelet_preferred_address_types: Sequence[str] = option(
        (), kinds.ADDRESS_TYPES, "Types of addresses of nodes, in order of preference.", SAME, is_rare=True
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ObservationOptions:
    """Audit and tracing: what is recorded of requests."""

    audit: AuditOptions | None = combined(None, _audit, FLAGS)
    tracing_config_file: FilePath | None = _file(
        "TracingConfiguration file: the collector of spans of requests."
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShutdownOptions:
    """Shutdown: for programs that run until a signal."""

    shutdown_delay_duration: float = option(
        0.0,
        SECONDS,
        "Time after SIGINT or SIGTERM in which requests are served while /readyz fails, so that load "
        "balancers choose other servers.",
        SAME,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EmbeddingOptions:
    """Embedding: for programs that run the control plane; they have no flags."""

    clock: Callable[[], float] = monotonic_time
    rng: random.Random | None = None
    shares_port: bool = False
    """Whether other processes listen on the port, too."""
    is_worker: bool = False
    """Whether another process with the same store and options writes the bootstrap objects, and runs the
    controllers and nodes: this one only serves requests. It listens when it is ready."""
    server_options: Mapping[str, Any] | None = None
    """Further arguments of `APIServer`."""
    webhook_client: WebhookClient | None = None
    """Sends the reviews of admission and conversion webhooks; by default over TLS."""


@dataclass(frozen=True, kw_only=True)
class ControlPlaneOptions(
    ServingOptions,
    StorageOptions,
    APIOptions,
    AuthenticationOptions,
    ServiceAccountOptions,
    AuthorizationOptions,
    AdmissionOptions,
    ServiceNetworkOptions,
    NodeOptions,
    ObservationOptions,
    EmbeddingOptions,
):
    """The options of a control plane: the keyword arguments of `ControlPlane`."""
