"""Names, ports and labels of the objects of a deployment; they are those of kubebuilder's kustomization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]

PROBE_PORT: Final = 8081
METRICS_PORT: Final = 8443
WEBHOOK_PORT: Final = 9443
"""Ports of the manager container; the last one is the default of the webhook server."""
WEBHOOK_CERTIFICATES: Final = "/certificates/webhook"
METRICS_CERTIFICATES: Final = "/certificates/metrics"
"""Directories with certificates of cert-manager."""
WEBHOOK_CERTIFICATE_SECRET: Final = "webhook-server-cert"  # noqa: S105 - a name
METRICS_CERTIFICATE_SECRET: Final = "metrics-server-cert"  # noqa: S105 - a name


@dataclass(frozen=True)
class DeploymentNames:
    """Names of the objects of a project; `operator` is the name of its operator."""

    project: str
    operator: str

    @property
    def namespace(self) -> str:
        """Namespace of the operator."""
        return f"{self.project}-system"

    @property
    def manager(self) -> str:
        """Deployment and ServiceAccount."""
        return f"{self.project}-controller-manager"

    @property
    def metrics_service(self) -> str:
        """Service of `/metrics`."""
        return f"{self.manager}-metrics-service"

    @property
    def webhook_service(self) -> str:
        """Service of the webhooks; the operator derives the same name for its certificate."""
        return f"{self.operator}-webhook-service"

    @property
    def serving_certificate(self) -> str:
        """Certificate of cert-manager for the webhooks."""
        return f"{self.project}-serving-cert"

    def prefixed(self, name: str) -> str:
        """Return a name with the prefix of the project instead of that of the operator."""
        short = name.removeprefix(f"{self.operator}-").removeprefix(f"{self.project}-")
        return f"{self.project}-{short}"

    def webhook_configuration(self, *, mutating: bool) -> str:
        """Return the name under which the operator looks for its webhook configuration."""
        return f"{self.operator}-{'mutating' if mutating else 'validating'}-webhook-configuration"

    @property
    def selector(self) -> dict[str, str]:
        """Labels of the manager pods."""
        return {"control-plane": "controller-manager", "app.kubernetes.io/name": self.project}

    def metadata(self, name: str, *, namespaced: bool = True) -> Manifest:
        """Return the metadata of an object, in the namespace of the operator if its kind is namespaced."""
        labels = {"app.kubernetes.io/name": self.project}
        if namespaced:
            return {"name": name, "namespace": self.namespace, "labels": labels}
        return {"name": name, "labels": labels}


def service_hosts(service: str, namespace: str) -> list[str]:
    """Return the host names of a Service, for certificates."""
    return [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]
