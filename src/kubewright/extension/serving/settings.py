"""Settings of an extension API server: what differs between a development machine and a cluster.

`kubewright run` sets them from variables named `KUBEWRIGHT_<FIELD>`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kubewright.manager.operators.settings import read_environment

PORT = 8443
"""Port in a pod."""


@dataclass(slots=True, kw_only=True)
class APIServerSettings:
    """Settings of an `APIServerApp`. All of them have defaults."""

    storage: str = "memory:"
    """URL of the storage: `memory:`, `sqlite:PATH`, `etcd://HOST:PORT[,HOST:PORT...][/PREFIX]` or
    `postgresql://[USER@]HOST[:PORT]/DATABASE`."""
    development: bool = False
    """Serve on this machine with a self-signed certificate, and register the server while it runs."""
    host: str = ""
    """Address to listen on; by default 127.0.0.1 in development, else all addresses."""
    port: int = 0
    """Port to listen on; by default a free port in development, else 8443."""
    external_address: str = ""
    """`host:port` at which the API server of the cluster reaches this machine in development, such as a
    tunnel that forwards TLS; by default the address that the server listens on."""
    service: str = ""
    """Name of the Service in APIServices and certificates; by default the name of the app."""
    namespace: str = ""
    """Namespace of the Service and of the Secret with certificates; by default that of the pod, in
    development that of the kubeconfig."""
    certificates: str = ""
    """Directory with `tls.crt` and `tls.key`, for example from cert-manager; empty: managed in a Secret."""
    secret: str = ""
    """Name of the Secret with managed certificates; by default `<service>-certificates`."""
    register: bool = False
    """Create the APIServices at start also outside of development, instead of through manifests."""
    shutdown_delay: float = 0.0
    """Seconds for which requests are served after SIGTERM, while `/readyz` fails, so that clients choose
    another replica. The Deployment of `kubewright manifests` has a preStop hook for this instead."""
    group_priority: int = 1000
    """`groupPriorityMinimum` of the APIServices."""
    max_requests_in_flight: int = 400
    """Requests that are processed at the same time, without watches and writes."""
    max_mutating_requests_in_flight: int = 200
    """Writes that are processed at the same time."""
    priority: bool = True
    """Divide the requests in flight by the FlowSchemas and priority levels of the cluster."""
    audit_policy: str = ""
    """Path of an audit policy; by default all requests are recorded with their metadata."""
    audit_log: str = ""
    """Path of the audit log; `-` is the standard output, empty: no log."""
    audit_webhook: str = ""
    """Path of a kubeconfig with the server that audit events are sent to."""
    cbor: bool = True
    """Serve clients that prefer CBOR."""
    cluster_admission: bool = True
    """Apply namespace lifecycle, admission policies and admission webhooks of the cluster."""

    def update_from_environment(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the fields for which there is a variable, such as `KUBEWRIGHT_STORAGE`."""
        read_environment(self, environ)
