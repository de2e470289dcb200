"""The types of every supported version, compared with the definitions of the package kubernetes-validate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.builtin.descriptions import describe
from kubewright.api.builtin.openapi import published
from kubewright.api.builtin.resources import resources
from kubewright.api.builtin.schemas import definition_name
from kubewright.api.builtin.types import types_of
from kubewright.api.kubernetes_version import KubernetesVersion, supported

VERSIONS = [str(version) for version in supported()]


def parse(text: str) -> KubernetesVersion:
    return KubernetesVersion.parse(text)


@cache
def other_definitions(version: str) -> Mapping[str, Any]:
    spec = find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("kubernetes-validate is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema" / f"v{version}.0-local"
    if not folder.is_dir():
        pytest.skip(f"kubernetes-validate has no definitions of Kubernetes {version}")
    found: dict[str, Any] = json.loads((folder / "_definitions.json").read_bytes())["$defs"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_has_the_fields_of_its_release(version: str) -> None:
    """Every definition has the same fields, references, required fields and lists."""
    types = types_of(parse(version)).definitions
    for name, other in other_definitions(version).items():
        schema = types[name]
        properties = schema.get("properties", {})
        assert list(properties) == list(other.get("properties", {})), name
        if properties:
            assert schema.get("required") == other.get("required"), name
        for field, part in properties.items():
            theirs = other["properties"][field]
            reference = theirs.get("$ref", "").rpartition("/")[2]
            assert part.get("$ref", "") == reference, (name, field)
            for key in (
                "x-kubernetes-list-type",
                "x-kubernetes-list-map-keys",
                "x-kubernetes-patch-merge-key",
            ):
                assert part.get(key) == theirs.get(key), (name, field)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_a_version_has_types(version: str) -> None:
    """Schemas, protobuf messages and OpenAPI definitions exist for all resources and what they refer to."""
    types = types_of(parse(version))
    waiting = [definition_name(row.gvk) for row in resources(parse(version))]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        properties = types.definitions[name].get("properties", {})
        if name in types.messages and not any(field.inline for field in types.messages[name].fields):
            ours = {field.name for field in types.messages[name].fields}
            assert types.messages[name].shape != "object" or ours ^ properties.keys() <= {
                "apiVersion",
                "kind",
            }
        describe(name, published(name, "", parse(version)))
        for part in properties.values():
            for inner in (part, part.get("items"), part.get("additionalProperties")):
                if isinstance(inner, dict) and "$ref" in inner:
                    waiting.append(inner["$ref"])
    assert len(seen) > 500


def test_a_field_is_described_with_its_first_version() -> None:
    schema = published("io.k8s.api.core.v1.PodSpec")
    describe("io.k8s.api.core.v1.PodSpec", schema)
    assert schema["properties"]["hostnameOverride"]["description"].endswith(" Since Kubernetes 1.34.")
    assert "Since" not in schema["properties"]["hostname"]["description"]


def test_a_field_that_was_removed_exists_in_its_version_alone() -> None:
    having = [
        str(version)
        for version in supported()
        if "workloadRef" in types_of(version).definitions["io.k8s.api.core.v1.PodSpec"]["properties"]
    ]
    assert having == ["1.35"]
