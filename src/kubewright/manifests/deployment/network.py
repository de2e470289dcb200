"""Services, NetworkPolicies and the ServiceMonitor of a deployment."""

from __future__ import annotations

from .names import (
    METRICS_CERTIFICATE_SECRET,
    METRICS_PORT,
    WEBHOOK_PORT,
    DeploymentNames,
    Manifest,
)


def metrics_service(names: DeploymentNames) -> Manifest:
    """Return the Service of `/metrics`."""
    port = {"name": "https", "port": METRICS_PORT, "targetPort": "metrics"}
    metadata = names.metadata(names.metrics_service)
    metadata["labels"] = names.selector
    spec = {"selector": names.selector, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def webhook_service(names: DeploymentNames) -> Manifest:
    """Return the Service that the API server calls."""
    port = {"port": 443, "targetPort": "webhooks"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(names.webhook_service),
        "spec": {"selector": names.selector, "ports": [port]},
    }


def metrics_policy(names: DeploymentNames) -> Manifest:
    """Return the policy for scrapes, from namespaces with the label `metrics: enabled`."""
    source = {"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}
    return policy(names, "metrics", {"from": [source], "ports": [{"port": METRICS_PORT, "protocol": "TCP"}]})


def webhook_policy(names: DeploymentNames) -> Manifest:
    """Return the policy for webhook requests. The API server is not a pod, so that no selector matches it."""
    return policy(names, "webhook", {"ports": [{"port": WEBHOOK_PORT, "protocol": "TCP"}]})


def policy(names: DeploymentNames, purpose: str, rule: Manifest) -> Manifest:
    """Return a policy that allows traffic to the pods by one rule."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.metadata(f"{names.project}-allow-{purpose}-traffic"),
        "spec": {
            "podSelector": {"matchLabels": names.selector},
            "policyTypes": ["Ingress"],
            "ingress": [rule],
        },
    }


def service_monitor(names: DeploymentNames, *, certificates: str, secure: bool = True) -> Manifest:
    """Return the ServiceMonitor of the Prometheus operator.

    A certificate of cert-manager is verified; the self-signed certificate of the manager cannot be.
    """
    tls: Manifest = {"insecureSkipVerify": True}
    if certificates == "cert-manager":
        secret = METRICS_CERTIFICATE_SECRET
        tls = {
            "serverName": f"{names.metrics_service}.{names.namespace}.svc",
            "ca": {"secret": {"name": secret, "key": "ca.crt"}},
        }
    endpoint: Manifest = {"path": "/metrics", "port": "https", "scheme": "https" if secure else "http"}
    if secure:
        endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token"
        endpoint["tlsConfig"] = tls
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": names.metadata(f"{names.manager}-metrics-monitor"),
        "spec": {"endpoints": [endpoint], "selector": {"matchLabels": names.selector}},
    }
