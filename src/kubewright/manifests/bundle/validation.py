"""`validate_bundle`: the rules of OLM and of catalogs, without a cluster.

They are those of `operator-sdk bundle validate` and of the scorecard tests for bundles; examples are
validated against the schemas of the CRDs, including CEL rules.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from kubewright.api.encoding.yaml_limits import load_limited

from .bundle_format import ANNOTATIONS_FILE, BUNDLE, KIND, SUPPORTED_KINDS
from .findings import BundleContent, BundleFinding, BundleObject, Reporter, as_map
from .object_checks import check_definitions, check_objects, check_types
from .service_version_checks import check_service_version
from .webhook_checks import check_webhooks

MAX_BUNDLE_BYTES: Final = 1024 * 1024
"""Maximum size of a compressed bundle: OLM stores it in a ConfigMap."""
_CHANNEL: Final = re.compile(r"(candidate|fast|stable)(-.+)?")
_PACKAGE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def validate_bundle(directory: Path) -> list[BundleFinding]:
    """Return errors and warnings about the bundle in a directory, errors first."""
    findings: list[BundleFinding] = []
    _check_annotations(directory, findings)
    content = _read_manifests(directory, findings)
    check_types(content, findings)
    check_objects(content, findings)
    definitions = check_definitions(content, findings)
    versions = list(content.of_kind(KIND))
    if len(versions) != 1:
        where = versions[1].file if versions else "manifests"
        Reporter(findings, where).error("", f"a bundle has exactly one {KIND}; found {len(versions)}")
    for each in versions[:1]:
        check_service_version(each, content, definitions, findings)
        check_webhooks(each, content, findings)
    return sorted(findings, key=lambda each: each.severity)


def _check_annotations(directory: Path, findings: list[BundleFinding]) -> None:
    report = Reporter(findings, ANNOTATIONS_FILE)
    documents = list(_documents(directory / ANNOTATIONS_FILE, report))
    annotations = as_map(as_map(documents[0] if documents else None).get("annotations"))
    if not documents:
        return
    expected = {"mediatype.v1": "registry+v1", "manifests.v1": "manifests/", "metadata.v1": "metadata/"}
    for name, value in expected.items():
        found = annotations.get(f"{BUNDLE}.{name}")
        if found != value:
            report.error(f"annotations.{BUNDLE}.{name}", f"must be {value!r}, and is {found!r}")
    package = annotations.get(f"{BUNDLE}.package.v1")
    if not isinstance(package, str) or not _PACKAGE.fullmatch(package):
        report.error(f"annotations.{BUNDLE}.package.v1", f"{package!r} is not the name of a package")
    channels = [each.strip() for each in str(annotations.get(f"{BUNDLE}.channels.v1") or "").split(",")]
    if not all(channels):
        report.error(f"annotations.{BUNDLE}.channels.v1", "at least one channel is required")
        channels = []
    for channel in channels:
        if not _CHANNEL.fullmatch(channel):
            report.warning(
                f"annotations.{BUNDLE}.channels.v1",
                f"the channel {channel!r} does not start with candidate, fast or stable",
            )
    default = annotations.get(f"{BUNDLE}.channel.default.v1")
    if default and channels and default not in channels:
        report.error(
            f"annotations.{BUNDLE}.channel.default.v1", f"{default!r} is not one of {', '.join(channels)}"
        )
    _check_labels(directory, annotations, findings)


def _check_labels(directory: Path, annotations: Mapping[str, Any], findings: list[BundleFinding]) -> None:
    """Compare the labels of the Dockerfile, if it exists, with the annotations."""
    path = directory.absolute().with_suffix(".Dockerfile")
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    labels = dict(re.findall(r'^LABEL\s+([\w./-]+)="?([^"\n]*)"?\s*$', text, re.MULTILINE))
    report = Reporter(findings, path.name)
    for name, value in annotations.items():
        if name.startswith(BUNDLE) and labels.get(name) != value:
            report.error(f"LABEL {name}", f"must be {value!r} as in {ANNOTATIONS_FILE}")


def _read_manifests(directory: Path, findings: list[BundleFinding]) -> BundleContent:
    content = BundleContent()
    folder = directory / "manifests"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    if not files:
        Reporter(findings, "manifests").error("", "the directory does not exist or is empty")
    compressed = 0
    for path in files:
        report = Reporter(findings, f"manifests/{path.name}")
        if path.suffix not in (".yaml", ".yml", ".json") or not path.is_file():
            report.warning("", "is not a manifest, and OLM ignores it")
            continue
        compressed += len(gzip.compress(path.read_bytes()))
        for document in _documents(path, report):
            if document is None:
                continue
            if not isinstance(document, Mapping):
                report.error("", "is not a Kubernetes object")
                continue
            found = BundleObject(report.file, document)
            if found.kind not in SUPPORTED_KINDS:
                report.error(
                    "kind", f"OLM does not install {found.kind or 'objects without a kind'} from a bundle"
                )
            content.objects.append(found)
    if compressed > MAX_BUNDLE_BYTES:
        Reporter(findings, "manifests").error(
            "",
            f"{compressed:,} compressed bytes exceed the limit of {MAX_BUNDLE_BYTES:,}; shorten descriptions "
            "with max-description in [tool.kubewright.manifests]",
        )
    return content


def _documents(path: Path, report: Reporter) -> Iterator[Any]:
    try:
        yield from load_limited(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        report.error("", "does not exist")
    except (OSError, UnicodeDecodeError) as error:
        report.error("", f"cannot be read: {error}")
    except yaml.YAMLError as error:
        report.error("", f"is not YAML: {' '.join(str(error).split())}")
