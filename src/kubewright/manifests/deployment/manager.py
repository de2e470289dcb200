"""Namespace and Deployment of the manager.

The pod satisfies the restricted Pod Security Standard. Its root file system is read-only; `/tmp` is in
memory, because TLS contexts load keys from files.
"""

from __future__ import annotations

from typing import Any

from kubewright.manifests.project import OperatorReference
from kubewright.manifests.settings import ProjectSettings

from .containers import container_limits, http_probe, pod_security_context
from .names import (
    METRICS_CERTIFICATE_SECRET,
    METRICS_CERTIFICATES,
    METRICS_PORT,
    PROBE_PORT,
    WEBHOOK_CERTIFICATE_SECRET,
    WEBHOOK_CERTIFICATES,
    WEBHOOK_PORT,
    DeploymentNames,
    Manifest,
)


def namespace(names: DeploymentNames) -> Manifest:
    """Return the namespace of the operator, which enforces the restricted Pod Security Standard."""
    metadata = names.metadata(names.namespace, namespaced=False)
    metadata["labels"] = {**metadata["labels"], "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def manager_deployment(
    settings: ProjectSettings, names: DeploymentNames, reference: OperatorReference, *, webhooks: bool
) -> Manifest:
    """Return the Deployment of the manager. `webhooks`: whether the operator serves webhooks."""
    deployment = settings.deployment
    pod: Manifest = {
        "serviceAccountName": names.manager,
        # Running reconciles have 30 seconds to finish.
        "terminationGracePeriodSeconds": 40,
        "securityContext": pod_security_context(),
        "containers": [_container(settings, reference, webhooks=webhooks)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            *(
                {"name": name, "secret": {"secretName": secret}}
                for name, secret, _ in _certificates(settings, webhooks=webhooks)
            ),
        ],
    }
    labels = names.selector
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**names.metadata(names.manager), "labels": labels},
        "spec": {
            "replicas": deployment.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                    "labels": labels,
                },
                "spec": pod,
            },
        },
    }


def _certificates(settings: ProjectSettings, *, webhooks: bool) -> list[tuple[str, str, str]]:
    """Return volume, Secret and directory of the certificates that cert-manager issues."""
    if settings.deployment.certificates != "cert-manager":
        return []
    found = [("webhook-certificates", WEBHOOK_CERTIFICATE_SECRET, WEBHOOK_CERTIFICATES)] if webhooks else []
    if settings.deployment.metrics:
        found.append(("metrics-certificates", METRICS_CERTIFICATE_SECRET, METRICS_CERTIFICATES))
    return found


def manager_arguments(settings: ProjectSettings, *, webhooks: bool) -> list[str]:
    """Return the arguments of `kubewright run` in the container."""
    deployment = settings.deployment
    arguments = ["--production", f"--probe-port={PROBE_PORT}"]
    if deployment.leader_election:
        arguments.append("--leader-elect")
    if deployment.metrics:
        arguments.append(f"--metrics-port={METRICS_PORT}")
    if webhooks and deployment.certificates == "cert-manager":
        arguments.append(f"--webhook-certificates={WEBHOOK_CERTIFICATES}")
    return arguments


def _environment(
    settings: ProjectSettings, reference: OperatorReference, *, webhooks: bool
) -> list[dict[str, Any]]:
    deployment = settings.deployment
    variables: list[dict[str, Any]] = []
    if settings.namespaced and not reference.operator.watched_namespaces:
        source = {"fieldRef": {"fieldPath": "metadata.namespace"}}
        variables.append({"name": "KUBEWRIGHT_NAMESPACES", "valueFrom": source})
    if not deployment.webhooks:
        variables.append({"name": "KUBEWRIGHT_WEBHOOKS", "value": "false"})
    if deployment.metrics and deployment.certificates == "cert-manager":
        variables.append({"name": "KUBEWRIGHT_METRICS_CERTIFICATES", "value": METRICS_CERTIFICATES})
    variables += [{"name": name, "value": value} for name, value in deployment.env.items()]
    return variables


def _container(settings: ProjectSettings, reference: OperatorReference, *, webhooks: bool) -> Manifest:
    deployment = settings.deployment
    ports = [{"name": "probes", "containerPort": PROBE_PORT}]
    if deployment.metrics:
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})
    if webhooks:
        ports.append({"name": "webhooks", "containerPort": WEBHOOK_PORT})
    environment = _environment(settings, reference, webhooks=webhooks)
    container: Manifest = {
        "name": "manager",
        "image": deployment.image,
        "command": ["kubewright", "run", reference.target],
        "args": manager_arguments(settings, webhooks=webhooks),
    }
    if environment:
        container["env"] = environment
    container |= {
        "ports": ports,
        "livenessProbe": http_probe("/healthz", "probes", delay=15, period=20),
        "readinessProbe": http_probe("/readyz", "probes", delay=5, period=10),
        **container_limits(),
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod
            *(
                {"name": name, "mountPath": directory, "readOnly": True}
                for name, _, directory in _certificates(settings, webhooks=webhooks)
            ),
        ],
    }
    return container
