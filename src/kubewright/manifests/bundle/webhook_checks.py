"""Checks of the webhook definitions of a ClusterServiceVersion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .findings import BundleContent, BundleFinding, BundleObject, Reporter, as_map, as_maps, as_strings
from .object_checks import install_spec

_TYPES: Final = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook")
_RESERVED: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations", "*")


def check_webhooks(version: BundleObject, content: BundleContent, findings: list[BundleFinding]) -> None:
    """Check that webhooks refer to Deployments and CRDs of the bundle, and do not block OLM."""
    report = Reporter(findings, version.file)
    spec = as_map(version.data.get("spec"))
    deployments = {str(each.get("name")): each for each in as_maps(install_spec(version).get("deployments"))}
    owned = {
        str(each.get("name")) for each in as_maps(as_map(spec.get("customresourcedefinitions")).get("owned"))
    }
    names: set[tuple[str, str]] = set()
    converted: set[str] = set()
    for index, webhook in enumerate(as_maps(spec.get("webhookdefinitions"))):
        path = f"spec.webhookdefinitions[{index}]"
        type_ = str(webhook.get("type", ""))
        if type_ not in _TYPES:
            report.error(f"{path}.type", f"{type_!r} must be one of {', '.join(_TYPES)}")
        name = (type_, str(webhook.get("generateName", "")))
        if not name[1]:
            report.error(f"{path}.generateName", "is missing")
        elif name in names:
            report.error(f"{path}.generateName", f"{name[1]} is the name of another webhook")
        names.add(name)
        _check_common(report, path, webhook, deployments)
        if type_ == "ConversionWebhook":
            converted.update(as_strings(webhook.get("conversionCRDs")))
            _check_conversion(report, path, webhook, spec, owned)
        else:
            _check_rules(report, path, webhook)
    for each in content.of_kind("CustomResourceDefinition"):
        conversion = as_map(as_map(each.data.get("spec")).get("conversion"))
        if conversion.get("strategy") == "Webhook" and each.name not in converted:
            Reporter(findings, each.file).error(
                "spec.conversion", "the ClusterServiceVersion has no ConversionWebhook for this CRD"
            )
        if as_map(each.data.get("spec")).get("preserveUnknownFields") and each.name in converted:
            Reporter(findings, each.file).error(
                "spec.preserveUnknownFields", "must be false for a CRD with a conversion webhook"
            )


def _check_common(
    report: Reporter, path: str, webhook: Mapping[str, Any], deployments: Mapping[str, Mapping[str, Any]]
) -> None:
    deployment = deployments.get(str(webhook.get("deploymentName")))
    if deployment is None:
        report.error(
            f"{path}.deploymentName",
            f"{webhook.get('deploymentName')!r} is not one of the Deployments ({', '.join(deployments)})",
        )
    else:
        ports = [
            value
            for container in as_maps(_pod(deployment).get("containers"))
            for port in as_maps(container.get("ports"))
            for value in (port.get("containerPort"), port.get("name"))
        ]
        target = webhook.get("targetPort", webhook.get("containerPort", 443))
        if target not in ports:
            report.error(f"{path}.targetPort", f"no container of the Deployment has the port {target!r}")
    if not str(webhook.get("webhookPath", "/")).startswith("/"):
        report.error(f"{path}.webhookPath", "must start with a slash")
    if "v1" not in as_strings(webhook.get("admissionReviewVersions")):
        report.error(f"{path}.admissionReviewVersions", "must contain v1")
    if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        report.error(f"{path}.sideEffects", f"{webhook.get('sideEffects')!r} must be None or NoneOnDryRun")


def _pod(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_map(as_map(as_map(deployment.get("spec")).get("template")).get("spec"))


def _check_rules(report: Reporter, path: str, webhook: Mapping[str, Any]) -> None:
    """Report rules that OLM rejects because they could block the installation of operators."""
    rules = as_maps(webhook.get("rules"))
    if not rules:
        report.error(f"{path}.rules", "at least one rule is required")
    for index, rule in enumerate(rules):
        groups = as_strings(rule.get("apiGroups"))
        place = f"{path}.rules[{index}]"
        if "*" in groups:
            report.error(f"{place}.apiGroups", "OLM rejects webhooks for all groups")
        if "operators.coreos.com" in groups:
            report.error(f"{place}.apiGroups", "OLM rejects webhooks for its own group operators.coreos.com")
        resources = {each.partition("/")[0] for each in as_strings(rule.get("resources"))}
        if "admissionregistration.k8s.io" in groups and resources & set(_RESERVED):
            report.error(f"{place}.resources", "OLM rejects webhooks for webhook configurations")


def _check_conversion(
    report: Reporter, path: str, webhook: Mapping[str, Any], spec: Mapping[str, Any], owned: set[str]
) -> None:
    targets = as_strings(webhook.get("conversionCRDs"))
    if not targets:
        report.error(f"{path}.conversionCRDs", "at least one CRD is required")
    for each in targets:
        if each not in owned:
            report.error(f"{path}.conversionCRDs", f"{each} is not an owned CRD")
    supported = {str(each.get("type")) for each in as_maps(spec.get("installModes")) if each.get("supported")}
    if supported and supported != {"AllNamespaces"}:
        report.error(
            "spec.installModes",
            "must support only AllNamespaces, because the operator has a conversion webhook",
        )
