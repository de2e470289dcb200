"""CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1` in the form of `v1`.

Kubernetes removed `v1beta1` in 1.22, but projects of kubebuilder 2 contain such definitions. What `v1beta1`
has once for all versions, `v1` has for each version: the schema, the subresources and the printer columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

V1BETA1: Final = "apiextensions.k8s.io/v1beta1"
_SHARED: Final = ("subresources", "additionalPrinterColumns")


def as_v1(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition of `v1beta1` as one of `v1`."""
    spec = dict(crd.get("spec") or {})
    shared = {name: spec.pop(name) for name in _SHARED if name in spec}
    schema = (spec.pop("validation", None) or {}).get("openAPIV3Schema")
    keeps_unknown = spec.pop("preserveUnknownFields", True)
    name = spec.pop("version", None)
    versions = spec.get("versions") or [{"name": name, "served": True, "storage": True}]
    spec["versions"] = [_version({**shared, **each}, schema, keeps_unknown) for each in versions]
    if "conversion" in spec:
        spec["conversion"] = _conversion(spec["conversion"])
    metadata = {key: value for key, value in (crd.get("metadata") or {}).items() if value is not None}
    return {**crd, "apiVersion": "apiextensions.k8s.io/v1", "metadata": metadata, "spec": spec}


def _version(version: Mapping[str, Any], shared: Any, keeps_unknown: bool) -> dict[str, Any]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or shared or {}
    root = {"type": "object", **schema}
    if keeps_unknown and not schema.get("properties"):
        root["x-kubernetes-preserve-unknown-fields"] = True
    found: dict[str, Any] = {**version, "schema": {"openAPIV3Schema": root}}
    if "additionalPrinterColumns" in found:
        found["additionalPrinterColumns"] = [
            {("jsonPath" if key == "JSONPath" else key): value for key, value in column.items()}
            for column in found["additionalPrinterColumns"]
        ]
    return found


def _conversion(conversion: Mapping[str, Any]) -> dict[str, Any]:
    if conversion.get("strategy") != "Webhook":
        return {"strategy": "None"}
    webhook = {"conversionReviewVersions": conversion.get("conversionReviewVersions") or ["v1beta1"]}
    if "webhookClientConfig" in conversion:
        webhook["clientConfig"] = conversion["webhookClientConfig"]
    return {"strategy": "Webhook", "webhook": webhook}
