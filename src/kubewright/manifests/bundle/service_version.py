"""The ClusterServiceVersion of an operator.

OLM creates the Deployment, the ServiceAccount, the roles and the webhook configurations that it contains. It
mounts a certificate for the webhooks, and sets the annotation `olm.targetNamespaces` of the pods to the
namespaces that the operator watches; an empty value means all namespaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import kubewright
from kubewright.api.presence import copy_value
from kubewright.manifests.deployment.names import (
    WEBHOOK_CERTIFICATES,
    WEBHOOK_PORT,
    DeploymentNames,
    Manifest,
)
from kubewright.manifests.settings import ProjectSettings

from .bundle_format import API_VERSION, INSTALL_MODES, KIND
from .owned_kinds import description, display_name, owned_kinds
from .project_metadata import ProjectMetadata

WEBHOOK_CERTIFICATE_DIRECTORY: Final = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - a volume of the pod
"""Where OLM mounts `tls.crt` and `tls.key`."""
TARGET_NAMESPACES: Final = "metadata.annotations['olm.targetNamespaces']"
BUILDER: Final = f"kubewright-v{kubewright.__version__}"
LAYOUT: Final = "kubewright"
_WEBHOOK_FIELDS: Final = (
    "admissionReviewVersions",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
)
_CERTIFICATE_VOLUMES: Final = ("webhook-certificates", "metrics-certificates")


@dataclass
class OperatorObjects:
    """The objects of a deployment, by what becomes of them in a bundle."""

    names: DeploymentNames
    deployment: Manifest = field(default_factory=dict)
    definitions: list[Manifest] = field(default_factory=list)
    permissions: list[Manifest] = field(default_factory=list)
    """Rules in the namespaces that the operator watches."""
    cluster_permissions: list[Manifest] = field(default_factory=list)
    webhooks: list[Manifest] = field(default_factory=list)
    """Webhook configurations."""
    others: list[Manifest] = field(default_factory=list)
    """Objects that are files of the bundle."""

    @property
    def converted(self) -> list[Manifest]:
        """CRDs with a conversion webhook of the operator."""
        return [each for each in self.definitions if _conversion_service(each) is not None]


def _conversion_service(definition: Manifest) -> Manifest | None:
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    service = (webhook.get("clientConfig") or {}).get("service")
    return service if isinstance(service, dict) else None


def service_version(
    settings: ProjectSettings,
    objects: OperatorObjects,
    metadata: ProjectMetadata,
    *,
    version: str,
    replaces: str,
    samples: Sequence[Manifest],
    warnings: list[str],
) -> Manifest:
    """Return the ClusterServiceVersion; what OLM cannot install is added to `warnings`."""
    names = objects.names
    rules = [*objects.cluster_permissions, *objects.permissions]
    deployment = deployment_for_olm(objects.deployment)
    spec: Manifest = {
        "displayName": display_name(settings.name),
        "description": _description(objects.definitions, metadata),
        "version": version,
        "maturity": "alpha" if version.startswith("0.") or "-" in version else "stable",
        "keywords": list(metadata.keywords) or [settings.name],
    }
    if replaces:
        spec["replaces"] = replaces
    if metadata.maintainers:
        spec["maintainers"] = [dict(each) for each in metadata.maintainers]
    if metadata.maintainers or metadata.homepage:
        provider = {"name": next((each["name"] for each in metadata.maintainers if "name" in each), "")}
        spec["provider"] = provider | ({"url": metadata.homepage} if metadata.homepage else {})
    if metadata.links:
        spec["links"] = [{"name": display_name(name), "url": url} for name, url in metadata.links.items()]
    if metadata.icon is not None:
        spec["icon"] = [{"mediatype": metadata.icon[0], "base64data": metadata.icon[1]}]
    spec["installModes"] = install_modes(settings, objects, warnings)
    spec["install"] = {
        "strategy": "deployment",
        "spec": {
            "permissions": _permission(names.manager, objects.permissions),
            "clusterPermissions": _permission(names.manager, objects.cluster_permissions),
            "deployments": [
                {
                    "name": names.manager,
                    "label": objects.deployment["metadata"]["labels"],
                    "spec": deployment["spec"],
                }
            ],
        },
    }
    spec["customresourcedefinitions"] = {"owned": owned_kinds(objects.definitions, rules)}
    definitions = list(webhook_definitions(objects, warnings))
    if definitions:
        spec["webhookdefinitions"] = definitions
    spec["relatedImages"] = _images(settings)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": f"{settings.name}.v{version}",
            "namespace": "placeholder",
            "annotations": _annotations(settings, names, metadata, samples),
        },
        "spec": spec,
    }


def _annotations(
    settings: ProjectSettings, names: DeploymentNames, metadata: ProjectMetadata, samples: Sequence[Manifest]
) -> dict[str, str]:
    annotations = {
        "alm-examples": json.dumps(list(samples), indent=2, ensure_ascii=False),
        "capabilities": "Basic Install",
        "containerImage": settings.deployment.image,
        "description": metadata.description or f"Operator {settings.name}",
        "operatorframework.io/suggested-namespace": names.namespace,
        "operators.operatorframework.io/builder": BUILDER,
        "operators.operatorframework.io/project_layout": LAYOUT,
    }
    if metadata.repository:
        annotations["repository"] = metadata.repository
    return annotations


def _description(definitions: Iterable[Manifest], metadata: ProjectMetadata) -> str:
    """Return the text for a catalog: what the operator is, and its kinds."""
    lines = [metadata.description] if metadata.description else []
    kinds = {}
    for definition in definitions:
        spec = definition["spec"]
        version = next(each for each in spec["versions"] if each["storage"])
        schema = version["schema"]["openAPIV3Schema"]
        kinds[spec["names"]["kind"]] = (
            f"- **{spec['names']['kind']}** (`{spec['group']}/{version['name']}`): "
            f"{description(schema, spec['names']['kind'])}"
        )
    return "\n".join([*lines, "", "## Kinds", "", *kinds.values()]).strip() if kinds else "\n".join(lines)


def _permission(account: str, rules: list[Manifest]) -> list[Manifest]:
    return [{"serviceAccountName": account, "rules": rules}] if rules else []


def _images(settings: ProjectSettings) -> list[Manifest]:
    """Return the images for installations without access to registries: the manager, and operands."""
    images = [{"name": "manager", "image": settings.deployment.image}]
    for name, value in settings.deployment.env.items():
        if name.endswith("_IMAGE") or name.startswith("RELATED_IMAGE_"):
            short = name.removeprefix("RELATED_IMAGE_").removesuffix("_IMAGE")
            images.append({"name": short.lower().replace("_", "-"), "image": value})
    return images


def install_modes(settings: ProjectSettings, objects: OperatorObjects, warnings: list[str]) -> list[Manifest]:
    """Return the install modes: all namespaces, or single ones for a namespaced operator."""
    supported = set(INSTALL_MODES[:3]) if settings.namespaced else {"AllNamespaces"}
    if settings.namespaced and objects.converted:
        warnings.append(
            "OLM installs operators with conversion webhooks only for all namespaces; namespaced = true is "
            "ignored in the bundle"
        )
        supported = {"AllNamespaces"}
    return [{"type": each, "supported": each in supported} for each in INSTALL_MODES]


def deployment_for_olm(deployment: Manifest) -> Manifest:
    """Return the Deployment with the certificate and the namespaces that OLM provides."""
    prepared: Manifest = copy_value(deployment)
    pod = prepared["spec"]["template"]["spec"]
    pod["volumes"] = [each for each in pod["volumes"] if each["name"] not in _CERTIFICATE_VOLUMES]
    for container in pod["containers"]:
        container["volumeMounts"] = [
            each for each in container["volumeMounts"] if each["name"] not in _CERTIFICATE_VOLUMES
        ]
        container["args"] = [
            each.replace(WEBHOOK_CERTIFICATES, WEBHOOK_CERTIFICATE_DIRECTORY) for each in container["args"]
        ]
        environment = [
            _with_target_namespaces(each)
            for each in container.pop("env", ())
            if each["name"] != "KUBEWRIGHT_METRICS_CERTIFICATES"
        ]
        if environment:
            container["env"] = environment
    return prepared


def _with_target_namespaces(variable: Manifest) -> Manifest:
    if variable["name"] != "KUBEWRIGHT_NAMESPACES" or "valueFrom" not in variable:
        return variable
    return {**variable, "valueFrom": {"fieldRef": {"fieldPath": TARGET_NAMESPACES}}}


def webhook_definitions(objects: OperatorObjects, warnings: list[str]) -> Iterable[Manifest]:
    """Return the admission and conversion webhooks."""
    manager = objects.names.manager
    ports = {"containerPort": 443, "targetPort": WEBHOOK_PORT, "deploymentName": manager}
    for configuration in objects.webhooks:
        type_ = configuration["kind"].removesuffix("WebhookConfiguration")
        for webhook in configuration["webhooks"]:
            service = webhook["clientConfig"].get("service")
            if service is None:
                warnings.append(
                    f"webhook {webhook['name']} has a URL, which OLM does not support; it is omitted"
                )
                continue
            for name in ("matchConditions", "namespaceSelector"):
                if name in webhook and not _is_own_selector(webhook[name]):
                    warnings.append(f"webhook {webhook['name']}: OLM does not support {name}; it is omitted")
            yield {
                "type": f"{type_}AdmissionWebhook",
                "generateName": webhook["name"],
                **ports,
                "webhookPath": service["path"],
                **{name: webhook[name] for name in _WEBHOOK_FIELDS if name in webhook},
            }
    for definition in objects.converted:
        names = definition["spec"]["names"]
        webhook = definition["spec"]["conversion"]["webhook"]
        service = _conversion_service(definition) or {}
        yield {
            "type": "ConversionWebhook",
            "generateName": f"c{names['singular']}.{definition['spec']['group']}",
            **ports,
            "webhookPath": service.get("path", "/convert"),
            "admissionReviewVersions": webhook["conversionReviewVersions"],
            "sideEffects": "None",
            "conversionCRDs": [definition["metadata"]["name"]],
        }


def _is_own_selector(selector: Any) -> bool:
    """Return whether a selector was generated for a namespaced operator: OLM generates an equivalent one."""
    expressions = (selector.get("matchExpressions") or []) if isinstance(selector, dict) else []
    return bool(expressions) and all(each["key"] == "kubernetes.io/metadata.name" for each in expressions)
