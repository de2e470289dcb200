"""Checks of a ClusterServiceVersion: names, install strategy, permissions, CRDs, examples, descriptions."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from kubewright.api.apps.v1 import DeploymentSpec
from kubewright.api.presence import copy_value
from kubewright.schema.version import SchemaVersion

from .bundle_format import API_VERSION, INSTALL_MODES, SEMVER
from .findings import BundleContent, BundleFinding, BundleObject, Reporter, as_map, as_maps, as_strings
from .object_checks import decode_map, install_spec
from .project_metadata import MEDIA_TYPES

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_CAPABILITIES: Final = (
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
)
_CATEGORIES: Final = (
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Drivers and plugins",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
)
_MATURITY: Final = (
    "planning",
    "pre-alpha",
    "alpha",
    "beta",
    "stable",
    "mature",
    "inactive",
    "deprecated",
)


def check_service_version(
    version: BundleObject,
    content: BundleContent,
    definitions: Mapping[str, Mapping[str, Any]],
    findings: list[BundleFinding],
) -> None:
    """Check all fields except for webhook definitions; `definitions` are the valid CRDs by name."""
    report = Reporter(findings, version.file)
    spec = as_map(version.data.get("spec"))
    if version.data.get("apiVersion") != API_VERSION:
        report.error("apiVersion", f"{version.data.get('apiVersion')!r} must be {API_VERSION}")
    _check_versions(report, version, spec)
    _check_install_modes(report, spec)
    _check_strategy(report, version, spec)
    _check_permissions(report, version)
    owned = _check_owned(report, spec, content, findings)
    _check_examples(report, version, owned, _schemas(definitions))
    _check_descriptions(report, version, spec)


def _check_versions(report: Reporter, version: BundleObject, spec: Mapping[str, Any]) -> None:
    number = str(spec.get("version", ""))
    if not SEMVER.fullmatch(number):
        report.error("spec.version", f"{number!r} is not a semantic version such as 1.2.3")
    for path, name in (("metadata.name", version.name), ("spec.replaces", str(spec.get("replaces") or ""))):
        if path == "spec.replaces" and not name:
            continue
        _, separator, suffix = name.partition(".")
        if not _NAME.fullmatch(name) or not separator or not SEMVER.fullmatch(suffix.removeprefix("v")):
            report.error(path, f"{name!r} must have the form <operator>.v<semantic version>")
        elif path == "metadata.name" and suffix.removeprefix("v") != number:
            report.error(path, f"has the version {suffix.removeprefix('v')}, and spec.version is {number}")
    if spec.get("replaces") == version.name:
        report.error("spec.replaces", "is the ClusterServiceVersion itself")
    minimum = spec.get("minKubeVersion")
    if minimum is None:
        report.warning("spec.minKubeVersion", "is missing: the bundle can be installed on any version")
    elif not SEMVER.fullmatch(str(minimum)):
        report.error("spec.minKubeVersion", f"{minimum!r} is not a semantic version such as 1.30.0")


def _check_install_modes(report: Reporter, spec: Mapping[str, Any]) -> None:
    modes = as_maps(spec.get("installModes"))
    if not modes:
        report.error("spec.installModes", "is missing")
        return
    types = [str(each.get("type")) for each in modes]
    for index, each in enumerate(types):
        if each not in INSTALL_MODES:
            report.error(
                f"spec.installModes[{index}].type", f"{each!r} must be one of {', '.join(INSTALL_MODES)}"
            )
        if each in types[:index]:
            report.error(f"spec.installModes[{index}].type", f"{each} is listed twice")
    if not any(each.get("supported") is True for each in modes):
        report.error("spec.installModes", "no mode is supported")


def _check_strategy(report: Reporter, version: BundleObject, spec: Mapping[str, Any]) -> None:
    install = as_map(spec.get("install"))
    if install.get("strategy") != "deployment":
        report.error("spec.install.strategy", f"{install.get('strategy')!r} must be deployment")
    deployments = as_maps(install_spec(version).get("deployments"))
    if not deployments:
        report.error("spec.install.spec.deployments", "at least one Deployment is required")
    related = {str(each.get("image")) for each in as_maps(spec.get("relatedImages"))}
    for index, deployment in enumerate(deployments):
        path = f"spec.install.spec.deployments[{index}]"
        if not deployment.get("name"):
            report.error(f"{path}.name", "is missing")
        body = decode_map(report, f"{path}.spec", deployment.get("spec"), DeploymentSpec)
        if body is None:
            continue
        template = as_map(body.get("template"))
        selector = as_map(as_map(body.get("selector")).get("matchLabels"))
        labels = as_map(as_map(template.get("metadata")).get("labels"))
        if not selector:
            report.error(f"{path}.spec.selector.matchLabels", "is missing")
        elif not selector.items() <= labels.items():
            report.error(f"{path}.spec.selector", "does not match the labels of the pod template")
        pod = as_map(template.get("spec"))
        _check_account(report, path, pod, version)
        containers = as_maps(pod.get("containers"))
        if not containers:
            report.error(f"{path}.spec.template.spec.containers", "at least one container is required")
        for number, container in enumerate(containers):
            _check_container(report, f"{path}.spec.template.spec.containers[{number}]", container, related)


def _check_account(report: Reporter, path: str, pod: Mapping[str, Any], version: BundleObject) -> None:
    name = pod.get("serviceAccountName")
    fields = ("permissions", "clusterPermissions")
    known = {
        str(each.get("serviceAccountName"))
        for field in fields
        for each in as_maps(install_spec(version).get(field))
    }
    where = f"{path}.spec.template.spec.serviceAccountName"
    if not name:
        report.error(where, "is missing: the operator would run with the default ServiceAccount")
    elif name not in known:
        report.error(
            where, f"no permissions are for the ServiceAccount {name}, so that OLM does not create it"
        )


def _check_container(report: Reporter, path: str, container: Mapping[str, Any], related: set[str]) -> None:
    image = str(container.get("image") or "")
    if not image:
        report.error(f"{path}.image", "is missing")
    else:
        _, separator, tag = image.rpartition(":")
        tagged = separator and "/" not in tag
        if "@" not in image and (not tagged or tag == "latest"):
            report.warning(f"{path}.image", f"{image} changes over time; use a version or a digest")
        if related and image not in related:
            report.warning(f"{path}.image", f"{image} is not in spec.relatedImages")
    requests = as_map(as_map(container.get("resources")).get("requests"))
    if not {"cpu", "memory"} <= requests.keys():
        report.warning(f"{path}.resources.requests", "has no cpu and memory, which quotas can require")


def _check_permissions(report: Reporter, version: BundleObject) -> None:
    for field in ("permissions", "clusterPermissions"):
        for index, permission in enumerate(as_maps(install_spec(version).get(field))):
            path = f"spec.install.spec.{field}[{index}]"
            if not permission.get("serviceAccountName"):
                report.error(f"{path}.serviceAccountName", "is missing")
            rules = as_maps(permission.get("rules"))
            if not rules:
                report.error(f"{path}.rules", "at least one rule is required")
            for number, rule in enumerate(rules):
                place = f"{path}.rules[{number}]"
                if not as_strings(rule.get("verbs")):
                    report.error(f"{place}.verbs", "at least one verb is required")
                urls, resources = rule.get("nonResourceURLs"), rule.get("resources")
                if urls and field == "permissions":
                    report.error(f"{place}.nonResourceURLs", "are allowed only in clusterPermissions")
                if not urls and not (resources and rule.get("apiGroups")):
                    report.error(place, "needs apiGroups and resources, or nonResourceURLs")
                if "*" in as_strings(rule.get("apiGroups")) and "*" in as_strings(resources):
                    report.warning(place, "allows all resources of all groups")


Versions = dict[tuple[str, str, str], Mapping[str, Any]]


def _schemas(definitions: Mapping[str, Mapping[str, Any]]) -> Versions:
    """Return the schemas of all versions by CRD, version and kind."""
    found: Versions = {}
    for name, definition in definitions.items():
        spec = as_map(definition.get("spec"))
        kind = str(as_map(spec.get("names")).get("kind"))
        for version in as_maps(spec.get("versions")):
            schema = as_map(as_map(version.get("schema")).get("openAPIV3Schema"))
            found[name, str(version.get("name")), kind] = schema
    return found


def _check_owned(
    report: Reporter, spec: Mapping[str, Any], content: BundleContent, findings: list[BundleFinding]
) -> list[tuple[str, str, str]]:
    """Compare the owned CRDs with those of the bundle, and return the owned ones."""
    definitions = list(content.of_kind("CustomResourceDefinition"))
    schemas = _schemas({each.name: each.data for each in definitions})
    owned: list[tuple[str, str, str]] = []
    for index, each in enumerate(as_maps(as_map(spec.get("customresourcedefinitions")).get("owned"))):
        path = f"spec.customresourcedefinitions.owned[{index}]"
        key = (str(each.get("name")), str(each.get("version")), str(each.get("kind")))
        missing = [name for name in ("name", "version", "kind") if not each.get(name)]
        for name in missing:
            report.error(f"{path}.{name}", "is missing")
        if missing:
            continue
        if key in owned:
            report.error(path, f"{key[0]} {key[1]} is listed twice")
        owned.append(key)
        schema = schemas.get(key)
        if schema is None:
            report.error(path, f"the bundle has no CRD {key[0]} with version {key[1]} and kind {key[2]}")
            continue
        for name in ("displayName", "description"):
            if not each.get(name):
                report.warning(f"{path}.{name}", "is missing")
        if not each.get("resources"):
            report.warning(f"{path}.resources", "does not list the kinds that the operator creates")
        _check_descriptors(report, path, each, schema)
    served = {
        (each.name, str(version.get("name")))
        for each in definitions
        for version in as_maps(as_map(each.data.get("spec")).get("versions"))
        if version.get("served")
    }
    files = {each.name: each.file for each in definitions}
    for name, version in sorted(served - {(name, version) for name, version, _ in owned}):
        Reporter(findings, files[name]).error(
            "spec.versions", f"the ClusterServiceVersion does not own version {version} of {name}"
        )
    return owned


def _check_descriptors(
    report: Reporter, path: str, owned: Mapping[str, Any], schema: Mapping[str, Any]
) -> None:
    properties = as_map(schema.get("properties"))
    for part in ("spec", "status"):
        field = as_map(properties.get(part))
        descriptors = as_maps(owned.get(f"{part}Descriptors"))
        if field.get("properties") and not descriptors:
            report.warning(f"{path}.{part}Descriptors", f"no field of {part} is described")
        for index, each in enumerate(descriptors):
            place = f"{path}.{part}Descriptors[{index}]"
            if not _has_field(field, str(each.get("path", ""))):
                report.error(f"{place}.path", f"{each.get('path')!r} is not a field of {part} in the CRD")
            if not each.get("displayName"):
                report.warning(f"{place}.displayName", "is missing")


def _has_field(schema: Mapping[str, Any], path: str) -> bool:
    """Return whether a path such as `hosts[0].name` exists in a schema."""
    for part in re.findall(r"[^.\[\]]+|\[\d*\]", path) or [""]:
        if part.startswith("["):
            found = schema.get("items")
        else:
            found = as_map(schema.get("properties")).get(part, schema.get("additionalProperties"))
        if found is None and schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        if not isinstance(found, Mapping):
            return False
        schema = found
    return True


def _check_examples(
    report: Reporter, version: BundleObject, owned: list[tuple[str, str, str]], schemas: Versions
) -> None:
    path = "metadata.annotations.alm-examples"
    annotations = as_map(as_map(version.data.get("metadata")).get("annotations"))
    text = annotations.get("alm-examples")
    if text is None:
        report.warning(path, "is missing: a console cannot offer examples")
        return
    try:
        examples = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        report.error(path, f"is not JSON: {error}")
        return
    if not isinstance(examples, list):
        report.error(path, "must be a list of objects")
        return
    shown = set()
    for index, each in enumerate(examples):
        key = _owned_key(as_map(each), owned)
        if key is None:
            found = as_map(each)
            report.error(
                f"{path}[{index}]",
                f"{found.get('apiVersion')} {found.get('kind')} is not the kind of an owned CRD",
            )
            continue
        shown.add(key)
        for message in _example_errors(dict(each), schemas.get(key)):
            report.error(f"{path}[{index}]", message)
    for name, number, kind in owned:
        if (name, number, kind) not in shown:
            report.warning(path, f"has no example of {kind} {number}")


def _owned_key(example: Mapping[str, Any], owned: list[tuple[str, str, str]]) -> tuple[str, str, str] | None:
    for name, version, kind in owned:
        group = name.partition(".")[2]
        if (example.get("apiVersion"), example.get("kind")) == (f"{group}/{version}", kind):
            return name, version, kind
    return None


def _example_errors(example: dict[str, Any], schema: Mapping[str, Any] | None) -> Iterator[str]:
    """Return what the API server would report for an example."""
    if schema is None:
        return
    compiled = SchemaVersion(dict(schema))
    prepared: dict[str, Any] = copy_value(example)
    for unknown in compiled.prune(prepared):
        yield f"unknown field {unknown}"
    compiled.default(prepared)
    for error in compiled.validate(prepared).errors:
        yield str(error)


def _check_descriptions(report: Reporter, version: BundleObject, spec: Mapping[str, Any]) -> None:
    if not spec.get("displayName"):
        report.error("spec.displayName", "is missing")
    if not spec.get("description"):
        report.warning("spec.description", "is missing")
    if not as_map(spec.get("provider")).get("name"):
        report.warning("spec.provider.name", "is missing; set authors in [project] of pyproject.toml")
    for name in ("maintainers", "links", "keywords"):
        if not spec.get(name):
            report.warning(f"spec.{name}", "is missing")
    maturity = spec.get("maturity")
    if maturity is not None and maturity not in _MATURITY:
        report.error("spec.maturity", f"{maturity!r} must be one of {', '.join(_MATURITY)}")
    for index, each in enumerate(as_maps(spec.get("maintainers"))):
        if not each.get("name") or not each.get("email"):
            report.warning(f"spec.maintainers[{index}]", "catalogs require a name and an email address")
        if each.get("email") and not _EMAIL.fullmatch(str(each["email"])):
            report.error(f"spec.maintainers[{index}].email", f"{each['email']!r} is not an email address")
    for index, each in enumerate(as_maps(spec.get("links"))):
        url = urlsplit(str(each.get("url", "")))
        if not each.get("name") or not (url.scheme and url.netloc):
            report.error(f"spec.links[{index}]", f"needs a name and a URL; the URL is {each.get('url')!r}")
    _check_icon(report, spec)
    annotations = as_map(as_map(version.data.get("metadata")).get("annotations"))
    capability = annotations.get("capabilities")
    if capability is not None and capability not in _CAPABILITIES:
        report.error(
            "metadata.annotations.capabilities", f"{capability!r} must be one of {', '.join(_CAPABILITIES)}"
        )
    for category in str(annotations.get("categories") or "").split(","):
        if category.strip() and category.strip() not in _CATEGORIES:
            report.error(
                "metadata.annotations.categories",
                f"{category.strip()!r} must be one of {', '.join(_CATEGORIES)}",
            )


def _check_icon(report: Reporter, spec: Mapping[str, Any]) -> None:
    icons = as_maps(spec.get("icon"))
    if not icons:
        report.warning("spec.icon", "is missing; add icon.svg to the directory bundle of the manifests")
    if len(icons) > 1:
        report.error("spec.icon", "only one icon is allowed")
    for index, icon in enumerate(icons):
        if icon.get("mediatype") not in MEDIA_TYPES.values():
            report.error(
                f"spec.icon[{index}].mediatype",
                f"{icon.get('mediatype')!r} must be one of {', '.join(dict.fromkeys(MEDIA_TYPES.values()))}",
            )
        try:
            data = base64.b64decode(str(icon.get("base64data") or ""), validate=True)
        except binascii.Error:
            data = b""
        if not data:
            report.error(f"spec.icon[{index}].base64data", "is not base64 data")
