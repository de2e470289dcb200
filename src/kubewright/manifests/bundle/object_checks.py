"""Checks of the objects of a bundle other than the ClusterServiceVersion."""

from __future__ import annotations

from typing import Any

from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.encoding.codec import DecodeError, from_plain, to_plain
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.scheme import Scheme
from kubewright.schema.crd.definition import default_crd, validate_crd

from .bundle_format import KIND, SUPPORTED_KINDS
from .findings import BundleContent, BundleFinding, BundleObject, Reporter, as_map, as_maps


def check_objects(content: BundleContent, findings: list[BundleFinding]) -> None:
    """Check names, namespaces, duplicates, and that Services select a Deployment of the bundle."""
    seen: dict[tuple[str, str], str] = {}
    pods = [
        as_map(as_map(as_map(as_map(each.get("spec")).get("template")).get("metadata")).get("labels"))
        for each in deployments_of(content)
    ]
    accounts = {str(each.get("serviceAccountName", "")) for each in permissions_of(content)}
    for each in content.objects:
        report = Reporter(findings, each.file)
        metadata = as_map(each.data.get("metadata"))
        if not each.data.get("apiVersion"):
            report.error("apiVersion", "is missing")
        if not each.name:
            report.error("metadata.name", "is missing")
        key = (each.kind, each.name)
        if key in seen:
            report.error("metadata.name", f"{each.kind} {each.name} is also in {seen[key]}")
        seen.setdefault(key, each.file)
        if each.kind != KIND and metadata.get("namespace"):
            scope = "the namespace of the operator" if SUPPORTED_KINDS.get(each.kind) else "no namespace"
            report.warning("metadata.namespace", f"is ignored: OLM creates the object in {scope}")
        if each.kind == "ServiceAccount" and each.name in accounts:
            report.error(
                "metadata.name",
                f"OLM creates the ServiceAccount {each.name} of the ClusterServiceVersion; remove this file",
            )
        selector = as_map(as_map(each.data.get("spec")).get("selector"))
        if each.kind == "Service" and selector and not any(selector.items() <= pod.items() for pod in pods):
            report.error("spec.selector", "matches the pods of no Deployment of the ClusterServiceVersion")


def check_types(content: BundleContent, findings: list[BundleFinding]) -> None:
    """Report built-in objects with values of wrong types, and remove them from the content."""
    scheme = Scheme()
    for each in list(content.objects):
        gvk = GroupVersionKind.from_api_version(str(each.data.get("apiVersion")), each.kind)
        of = scheme.find(gvk)
        if of is not None and decode_map(Reporter(findings, each.file), "", each.data, of) is None:
            content.objects.remove(each)


def decode_map(report: Reporter, path: str, value: Any, of: type[Any]) -> dict[str, Any] | None:
    """Return a value as a built-in type has it; report values of wrong types, and return `None` then."""
    try:
        decoded: dict[str, Any] = to_plain(from_plain(value, of))
    except DecodeError as error:
        message, _, where = str(error).partition(" - at `$")
        place = f"{path}{where.rstrip('`')}".removeprefix(".")
        expected = message.partition(": ")[2].replace("`", "").replace(" | null", "")
        report.error(place, f"{expected[:1].lower()}{expected[1:]}")
        return None
    return decoded


def check_definitions(content: BundleContent, findings: list[BundleFinding]) -> dict[str, dict[str, Any]]:
    """Validate the CRDs as the API server does, and return the valid ones by name."""
    valid = {}
    for each in content.of_kind("CustomResourceDefinition"):
        report = Reporter(findings, each.file)
        if each.data.get("apiVersion") != "apiextensions.k8s.io/v1":
            report.error(
                "apiVersion",
                f"{each.data.get('apiVersion')} is not served by Kubernetes; use apiextensions.k8s.io/v1",
            )
            continue
        definition = decode_map(report, "", each.data, CustomResourceDefinition)
        if definition is None:
            continue
        default_crd(definition)
        problems = validate_crd(definition, metadata=False)
        for problem in problems:
            report.error(problem.field, problem.detail or str(problem))
        if not problems:
            valid[each.name] = definition
    return valid


def deployments_of(content: BundleContent) -> list[Any]:
    """Return the Deployments of the ClusterServiceVersions."""
    return [
        deployment
        for each in content.of_kind(KIND)
        for deployment in as_maps(install_spec(each).get("deployments"))
    ]


def permissions_of(content: BundleContent) -> list[Any]:
    """Return the permissions of the ClusterServiceVersions."""
    return [
        permission
        for each in content.of_kind(KIND)
        for field in ("permissions", "clusterPermissions")
        for permission in as_maps(install_spec(each).get(field))
    ]


def install_spec(version: BundleObject) -> Any:
    """Return `spec.install.spec` of a ClusterServiceVersion."""
    return as_map(as_map(as_map(version.data.get("spec")).get("install")).get("spec"))
