"""Settings of an operator: everything that differs between a development machine and a cluster.

`kubewright run` sets them from flags, `from_environment` from variables named `KUBEWRIGHT_<FIELD>`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from kubewright.cache import KindOptions
from kubewright.cache.informers.resync import RESYNC_SECONDS, check_resync
from kubewright.client.kind_types import AnyKind


class SettingsError(ValueError):
    """A setting is missing or invalid; the message names it and an expected value."""


@dataclass(slots=True, kw_only=True)
class Settings:
    """Settings of an operator. All of them have defaults."""

    namespaces: Sequence[str] | None = None
    """Namespaces to watch; `None` means all. The manifests then have Roles in these namespaces."""
    service_account: str = ""
    """Namespace and name of the service account for RoleBindings in the manifests; by default
    `<operator>-system/<operator>-manager`."""
    development: bool = False
    """Install CRDs at start, and serve webhooks on this machine with a self-signed certificate."""
    adopt_crds: bool = False
    """In development, replace CRDs that another program installed."""
    leader_election: bool = False
    leader_election_namespace: str = ""
    """Namespace of the Lease; by default the namespace of the pod."""
    leader_election_name: str = ""
    """Name of the Lease; by default the name of the operator."""
    leader_election_coordinated: bool = False
    """Let kube-apiserver choose the leader among LeaseCandidates, where it serves them."""
    leader_election_version: str = "1.0.0"
    """Semantic version of the program for coordinated leader election; the lowest becomes the leader."""
    shards: bool = False
    """Share the objects among all replicas, instead of leader election; see `kubewright.manager.sharding`."""
    lease_duration: float = 15.0
    """Seconds without a renewal after which another replica can become the leader."""
    renew_deadline: float = 10.0
    """Seconds without a renewal after which the leader stops."""
    retry_period: float = 2.0
    """Seconds between attempts to acquire or renew the Lease."""
    graceful_shutdown_timeout: float = 30.0
    """Seconds that running reconciles have to finish when the process stops."""
    probe_port: int | None = None
    """Port of `/healthz` and `/readyz`; `None` disables them."""
    metrics_port: int | None = None
    """Port of `/metrics`; `None` disables it."""
    metrics_secure: bool = True
    """Serve metrics over TLS, only to clients that the API server authenticates and authorizes."""
    metrics_certificates: str = ""
    """Directory with `tls.crt` and `tls.key` for metrics; empty: self-signed."""
    webhooks: bool = True
    """Serve the declared webhooks."""
    webhook_name: str = ""
    """Prefix of the names of the webhook configurations, Service and Secret; by default the name of the
    operator. Helm charts set it to the full name of the release."""
    webhook_host: str = ""
    """Address of the webhook server; by default 127.0.0.1 in development, else all addresses."""
    webhook_port: int = 0
    """Port of the webhook server; by default a free port in development, else 9443."""
    webhook_certificates: str = ""
    """Directory with `tls.crt` and `tls.key`, for example from cert-manager; empty: managed in a Secret."""
    webhook_secret: str = ""
    """Name of the Secret with managed certificates; by default `<webhook_name>-webhook-certificates`."""
    webhook_service: str = ""
    """Name of the webhook Service, for the host names in managed certificates."""
    tracing: bool = False
    """Create OpenTelemetry spans of reconciles, requests and webhooks; requires the extra `tracing`."""
    trace_port: int | None = None
    """Port of the trace endpoint for a dashboard, on the loopback interface; `None` disables it."""
    trace_token: str = field(default="", repr=False)
    """Token that a dashboard needs to read traces; required with `trace_port`."""
    recording_minutes: float = 0.0
    """Minutes of changes and reconciles that the process keeps, to write them to a file on SIGUSR1 or for a
    request of `/recording` on the metrics server; 0: none."""
    recording_directory: str = ""
    """Directory of these files; by default that for temporary files."""
    recording_errors: int = 0
    """Failed reconciles within a minute after which a file is written; 0: never."""
    resync: float = RESYNC_SECONDS
    """Seconds within which every object is reconciled again, changed or not; 0: never."""
    failure_events: bool = True
    """Record a Warning event about an object when a function for it fails."""
    kinds: dict[AnyKind, KindOptions] = field(default_factory=dict)
    """Cache options by kind; see `Cache`."""
    allow: Sequence[AnyKind] = ()
    """Kinds to cache completely, even Secrets and ConfigMaps."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Return settings from variables such as `KUBEWRIGHT_LEADER_ELECTION=true`."""
        settings = cls()
        settings.update_from_environment(environ)
        return settings

    def update_from_environment(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the fields for which there is a variable; see `from_environment`."""
        read_environment(self, environ)
        try:
            check_resync(self.resync)
        except ValueError as error:
            raise SettingsError(f"KUBEWRIGHT_RESYNC: {error}") from None


def read_environment(settings: Any, environ: Mapping[str, str]) -> None:
    """Set the fields of a dataclass for which there is a variable `KUBEWRIGHT_<FIELD>`."""
    for each in fields(settings):
        text = environ.get(f"KUBEWRIGHT_{each.name.upper()}")
        if text is not None:
            setattr(settings, each.name, _parse(each.name, str(each.type), text))


def _parse(name: str, of: str, text: str) -> Any:
    variable = f"KUBEWRIGHT_{name.upper()}"
    if of == "bool":
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise SettingsError(f"{variable}={text!r}: expected true or false")
        return text.lower() in ("true", "1", "yes")
    if of.startswith("int"):
        try:
            return int(text)
        except ValueError:
            raise SettingsError(f"{variable}={text!r}: expected an integer") from None
    if of == "float":
        try:
            return float(text)
        except ValueError:
            raise SettingsError(f"{variable}={text!r}: expected a number of seconds") from None
    if of == "str":
        return text
    if name == "namespaces":
        return tuple(part.strip() for part in text.split(",") if part.strip()) or None
    raise SettingsError(f"{variable} cannot be set from the environment; set Settings.{name} in the program")
