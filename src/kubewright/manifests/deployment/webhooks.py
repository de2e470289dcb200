"""Webhook configurations, conversion of CRDs, and certificates of a deployment.

Declared webhooks refer to the Service `webhook-service` in the namespace `system`; here they get the names of
the deployment. The operator injects the CA bundle of its own certificates; with cert-manager, annotations
request it from cert-manager's CA injector.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kubewright.api.declaring.declarations import Webhook, WebhookConfiguration, is_resource, resource_info
from kubewright.api.meta import LabelSelector, LabelSelectorRequirement
from kubewright.manifests.settings import ProjectSettings

from .names import (
    METRICS_CERTIFICATE_SECRET,
    WEBHOOK_CERTIFICATE_SECRET,
    DeploymentNames,
    Manifest,
    service_hosts,
)

INJECT_CA: Final = "cert-manager.io/inject-ca-from"
_DECLARED_SERVICE: Final = ("webhook-service", "system")


def placed_webhooks(
    webhooks: Iterable[Webhook], names: DeploymentNames, namespaces: tuple[str, ...]
) -> list[Webhook]:
    """Return webhooks that call the Service of the deployment, for objects in `namespaces` if given."""
    placed = []
    for webhook in webhooks:
        if not webhook.url and (webhook.service_name, webhook.service_namespace) == _DECLARED_SERVICE:
            webhook = replace(webhook, service_name=names.webhook_service, service_namespace=names.namespace)
        if namespaces and webhook.namespace_selector is None and not _is_cluster_scoped(webhook):
            requirement = LabelSelectorRequirement(
                key="kubernetes.io/metadata.name", operator="In", values=list(namespaces)
            )
            selector = LabelSelector(match_expressions=[requirement])
            webhook = replace(webhook, namespace_selector=selector)
        placed.append(webhook)
    return placed


def _is_cluster_scoped(webhook: Webhook) -> bool:
    return webhook.of is not None and is_resource(webhook.of) and resource_info(webhook.of).scope == "Cluster"


def placed_configurations(
    configurations: Iterable[WebhookConfiguration], names: DeploymentNames, *, inject_ca: bool
) -> list[WebhookConfiguration]:
    """Return the declared configurations with the names that the operator looks for."""
    declared = {each.mutating: each for each in configurations}
    placed = []
    for mutating in (True, False):
        name = names.webhook_configuration(mutating=mutating)
        found = declared.get(mutating) or WebhookConfiguration(mutating, name)
        annotations = dict(found.annotations)
        if inject_ca:
            annotations[INJECT_CA] = f"{names.namespace}/{names.serving_certificate}"
        labels = {"app.kubernetes.io/name": names.project, **found.labels}
        placed.append(replace(found, name=name, labels=labels, annotations=annotations))
    return placed


def place_conversion(definition: Manifest, names: DeploymentNames, *, inject_ca: bool) -> None:
    """Set the Service of the conversion webhook of a CRD."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is None:
        return
    if (service["name"], service["namespace"]) == _DECLARED_SERVICE:
        service |= {"name": names.webhook_service, "namespace": names.namespace}
    if inject_ca:
        annotations = definition["metadata"].setdefault("annotations", {})
        annotations[INJECT_CA] = f"{names.namespace}/{names.serving_certificate}"


def certificates(settings: ProjectSettings, names: DeploymentNames, *, webhooks: bool) -> list[Manifest]:
    """Return the Issuer and the Certificates of cert-manager."""
    issuer = f"{names.project}-selfsigned-issuer"
    objects: list[Manifest] = [
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": names.metadata(issuer),
            "spec": {"selfSigned": {}},
        }
    ]
    wanted = []
    if webhooks:
        wanted.append((names.serving_certificate, names.webhook_service, WEBHOOK_CERTIFICATE_SECRET))
    if settings.deployment.metrics:
        wanted.append((f"{names.project}-metrics-certs", names.metrics_service, METRICS_CERTIFICATE_SECRET))
    for name, service, secret in wanted:
        spec = {
            "dnsNames": service_hosts(service, names.namespace),
            "issuerRef": {"kind": "Issuer", "name": issuer},
            "secretName": secret,
        }
        objects.append(
            {
                "apiVersion": "cert-manager.io/v1",
                "kind": "Certificate",
                "metadata": names.metadata(name),
                "spec": spec,
            }
        )
    return objects if wanted else []
