"""Manifests of the example types, compared with the committed files.

After a change that is meant: `cd examples/types && kubewright manifests -o - NAME > golden/NAME.yaml`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.manifests import Options, generate, load_project
from kubewright.schema.version import SchemaVersion

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples/types/golden").glob("*.yaml"))


def build(name: str, options: Options | None = None) -> str:
    return "".join(generate(load_project([name]), options).files.values())


def definitions(text: str) -> list[dict[str, Any]]:
    documents = yaml.load_all(text, yaml.CSafeLoader)
    return [document for document in documents if document["kind"] == "CustomResourceDefinition"]


def test_every_example_has_golden_files(examples: Path) -> None:
    modules = {path.stem for path in examples.glob("*.py")} | {
        path.parent.name for path in examples.glob("*/__init__.py")
    }
    assert modules == set(NAMES)
    assert len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_committed_manifests_are_up_to_date(examples: Path, name: str) -> None:
    assert build(name) == (examples / "golden" / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_generation_does_not_depend_on_the_order_of_modules(examples: Path, name: str) -> None:
    project = load_project([name])
    for versions in project.kinds.values():
        versions.reverse()
    project.kinds = dict(reversed(project.kinds.items()))
    project.permissions.reverse()
    project.webhooks.reverse()
    assert "".join(generate(project).files.values()) == build(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_can_be_served(examples: Path, name: str) -> None:
    for definition in definitions(build(name)):
        for version in definition["spec"]["versions"]:
            SchemaVersion(version["schema"]["openAPIV3Schema"])


def schema(text: str, version: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = definitions(text)[0]["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    return found


def test_guestbook_validation_of_the_quick_start(examples: Path) -> None:
    served = SchemaVersion(schema(build("guestbook")))

    def complaints(**spec: Any) -> list[str]:
        obj = {
            "apiVersion": "webapp.my.domain/v1",
            "kind": "Guestbook",
            "metadata": {"name": "g"},
            "spec": {"size": 1, "configMapName": "settings", **spec},
        }
        served.decode(obj)
        return [error.field for error in served.validate(obj).errors]

    assert complaints() == []
    assert complaints(size=0) == complaints(size=11) == ["spec.size"]
    assert complaints(configMapName="x" * 16) == complaints(configMapName="") == ["spec.configMapName"]
    assert complaints(type="Fax") == ["spec.type"]
    assert complaints(type="Phone") == []


def test_cronjob_schema_of_the_tutorial(examples: Path) -> None:
    spec = schema(build("cronjob", Options(max_description=0)))["properties"]["spec"]
    assert spec["required"] == ["jobTemplate", "schedule"]
    properties = dict(spec["properties"])
    template = properties.pop("jobTemplate")
    assert properties == {
        "concurrencyPolicy": {"default": "Allow", "enum": ["Allow", "Forbid", "Replace"], "type": "string"},
        "failedJobsHistoryLimit": {"format": "int32", "minimum": 0, "type": "integer"},
        "schedule": {"minLength": 0, "type": "string"},
        "startingDeadlineSeconds": {"format": "int64", "minimum": 0, "type": "integer"},
        "successfulJobsHistoryLimit": {"format": "int32", "minimum": 0, "type": "integer"},
        "suspend": {"type": "boolean"},
    }
    assert template["properties"]["metadata"] == {"type": "object"}
    pod = template["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    assert pod["required"] == ["containers"]
    ports = pod["properties"]["containers"]["items"]["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"] == {"default": "TCP", "type": "string"}
    assert ports["items"]["required"] == ["containerPort"]
    assert pod["properties"]["imagePullSecrets"]["items"]["properties"]["name"]["default"] == ""
    assert "x-kubernetes-patch-merge-key" not in str(template)
    assert "$ref" not in str(template)


def test_schemas_are_structural(examples: Path) -> None:
    def walk(node: dict[str, Any], path: str) -> None:
        loose = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
        assert "type" in node or loose, path
        for name, child in node.get("properties", {}).items():
            walk(child, f"{path}.{name}")
        for keyword in ("items", "additionalProperties"):
            if isinstance(node.get(keyword), dict):
                walk(node[keyword], f"{path}.{keyword}")

    for name in NAMES:
        for definition in definitions(build(name)):
            for version in definition["spec"]["versions"]:
                walk(version["schema"]["openAPIV3Schema"], f"{name} {version['name']}")


def test_descriptions_are_limited_globally(examples: Path) -> None:
    assert "description" not in str(schema(build("cronjob", Options(max_description=0))))
    short = build("guestbook", Options(max_description=12))
    assert all(len(text) <= 12 for text in re.findall(r"description: (.*)", short))


def test_embedded_metadata_option(examples: Path) -> None:
    spec = schema(build("embedded", Options(embedded_object_meta=True)))["properties"]["spec"]["properties"]
    written_out = {"annotations", "finalizers", "labels", "name", "namespace"}
    assert spec["template"]["properties"]["metadata"]["properties"].keys() == written_out
    assert spec["claims"]["items"]["properties"]["metadata"]["properties"].keys() == written_out


def test_large_definition_warning(examples: Path) -> None:
    assert generate(load_project(["cronjob"])).warnings == []
    project = load_project(["multiversion"])
    (versions,) = project.kinds.values()
    import dataclasses

    from kubewright.api.declaring.declarations import resource, resource_info

    first = versions[0]
    for number in range(3, 9):
        copy = type(first.__name__, (first,), {"__module__": first.__module__})
        info = dataclasses.asdict(resource_info(first))
        resource(group=info["gvk"].group, version=f"v{number}")(copy)
        versions.append(copy)
    (warning,) = generate(project).warnings
    assert "262,144" in warning
    assert "--server-side" in warning
    assert "--max-description" in warning
