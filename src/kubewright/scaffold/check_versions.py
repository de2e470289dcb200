"""What code, manifests and recorded requests of a project use and versions of Kubernetes lack."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.manifests import Options, Project
from kubewright.manifests.version_needs import (
    Lack,
    lacks_of_definition,
    lacks_of_object,
    lacks_of_rule,
    lacks_of_source,
)

from .check import SUFFIXES, CheckError, Finding, definitions_of

Versions = Sequence[KubernetesVersion]


def check_versions(project: Project, options: Options | None, versions: Versions) -> list[Finding]:
    """Return what the code of a project needs: types, rules of permissions, CEL rules."""
    lacks = [*lacks_of_source(project.modules, versions)]
    for rule in project.permissions:
        lacks += lacks_of_rule(rule.groups, rule.resources, versions, rule.where)
    for definition in definitions_of(project, options):
        lacks += lacks_of_definition(definition, versions)
    return _findings(lacks)


def check_files(path: Path, versions: Versions) -> list[Finding]:
    """Return what the objects of manifests, or of recorded requests (`.jsonl`), need; raise `CheckError`."""
    files = (
        [path] if path.is_file() else [each for each in sorted(path.rglob("*")) if each.suffix in SUFFIXES]
    )
    lacks: list[Lack] = []
    for file in files:
        for place, document in _documents(file):
            for obj in _objects(document):
                lacks += lacks_of_object(obj, versions, place)
                if obj.get("kind") in ("ClusterRole", "Role"):
                    for rule in obj.get("rules") or ():
                        lacks += lacks_of_rule(
                            rule.get("apiGroups") or (), rule.get("resources") or (), versions, place
                        )
                if obj.get("kind") == "CustomResourceDefinition":
                    lacks += lacks_of_definition(obj, versions)
            if isinstance(document, dict) and "resource" in document:
                lacks += lacks_of_rule([document.get("group", "")], [document["resource"]], versions, place)
    return _findings(lacks)


def _findings(lacks: Iterable[Lack]) -> list[Finding]:
    found = (
        Finding("error", each.where, each.subject, f"Kubernetes {', '.join(each.versions)} {each.reason}")
        for each in lacks
    )
    return list(dict.fromkeys(found))


def _documents(file: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".jsonl":
            for number, line in enumerate(text.splitlines(), 1):
                yield f"{file}:{number}", json.loads(line)
            return
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            yield f"{file}:{node.start_mark.line + 1}", yaml.safe_load(yaml.serialize(node))
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        raise CheckError(f"cannot read {file}: {' '.join(str(error).split())}") from None


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Return the object of a document or of a recorded request, and the items of lists."""
    if not isinstance(document, dict):
        return
    if "resource" in document and "verb" in document:
        document = document.get("body")
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item)
    elif isinstance(document, dict) and document.get("kind"):
        yield document
